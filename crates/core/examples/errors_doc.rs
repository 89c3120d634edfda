//! Prints docs/errors.md.

fn main() {
    print!("{}", pgweir_core::errors::errors_markdown());
}
