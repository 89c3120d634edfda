use super::sources::Sources;
use std::fs;
use std::path::Path;

/// Crates `a`, which needs `b`, which needs `c`; and `d`, which needs `a`.
fn workspace(folder: &Path) {
    for (name, needs) in [("a", "b"), ("b", "c"), ("c", ""), ("d", "a")] {
        let src = folder.join("crates").join(name).join("src");
        fs::create_dir_all(src.join("inner")).unwrap();
        let needed = match needs {
            "" => String::new(),
            needs => format!("pgweir-{needs}.workspace = true\n"),
        };
        let manifest = format!("[package]\nname = \"pgweir-{name}\"\n[dependencies]\n{needed}");
        fs::write(src.join("../Cargo.toml"), manifest).unwrap();
        fs::write(src.join("lib.rs"), "mod inner;").unwrap();
        fs::write(src.join("inner/mod.rs"), "const QUERY: &str = \"select 1\";").unwrap();
    }
    fs::write(folder.join("Cargo.lock"), "lru 1").unwrap();
}

fn hash(folder: &Path) -> u64 {
    Sources::of(&folder.join("crates/a")).unwrap().hash().unwrap()
}

#[test]
fn the_hash_tells_programs_apart_and_no_more() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    workspace(one.path());
    workspace(two.path());
    let before = hash(one.path());
    assert_eq!(before, hash(two.path()), "the place does not count");
    let changed = |file: &str, text: &str| {
        let path = two.path().join(file);
        let old = fs::read(&path).unwrap();
        fs::write(&path, text).unwrap();
        let now = hash(two.path());
        fs::write(&path, old).unwrap();
        now != before
    };
    assert!(changed("crates/a/src/lib.rs", "mod inner; "));
    assert!(changed(
        "crates/c/src/inner/mod.rs",
        "const QUERY: &str = \"select 2\";"
    ));
    assert!(changed(
        "crates/b/Cargo.toml",
        "pgweir-c = { path = \"../c\", features = [\"x\"] }\n"
    ));
    assert!(changed("Cargo.lock", "lru 2"));
    assert!(!changed("crates/d/src/lib.rs", ""), "nothing of it is in the program");
    fs::write(two.path().join("crates/a/notes.md"), "").unwrap();
    assert_eq!(before, hash(two.path()));
    fs::rename(
        two.path().join("crates/c/src/inner"),
        two.path().join("crates/c/src/other"),
    )
    .unwrap();
    assert_ne!(before, hash(two.path()), "names count");
}

#[test]
fn the_program_knows_its_own_sources() {
    let sources = Sources::of(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap();
    assert_eq!(sources.hash().unwrap(), super::SOURCES);
    for (name, file) in [
        ("core", "src/statements/internal.rs"),
        ("sql", "src/effects.rs"),
        ("freeze", "src/lib.rs"),
        ("freeze-derive", "src/lib.rs"),
        ("auth", "src/lib.rs"),
        ("config", "src/lib.rs"),
        ("wire", "src/lib.rs"),
        ("sizing", "src/lib.rs"),
    ] {
        let counts = |path: &std::path::PathBuf| {
            let of_crate = path.parent().is_some_and(|folder| folder.ends_with(name));
            of_crate && path.ends_with("src") && path.join("..").join(file).exists()
        };
        assert!(sources.paths().iter().any(counts), "{name}");
    }
}
