//! Generated documentation is current.

#[test]
fn errors_md_is_generated_from_the_table() {
    let committed = include_str!("../../../docs/errors.md");
    assert_eq!(
        committed,
        pgweir_core::errors::errors_markdown(),
        "run: cargo run -p pgweir-core --example errors_doc > docs/errors.md"
    );
}
