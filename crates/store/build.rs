//! Lists the migrations of the store: whatever lies in `src/migrations/`, and for Postgres in `postgres/` below it.

// That is how a build script talks to Cargo.
#![allow(clippy::print_stdout)]

use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let folder = |name: &str| {
        let unset = || io::Error::other(format!("cannot write the migrations: {name} is not set"));
        env::var_os(name).map(PathBuf::from).ok_or_else(unset)
    };
    let (root, out) = (folder("CARGO_MANIFEST_DIR")?, folder("OUT_DIR")?);
    let sources = root.join("src/migrations");
    fs::write(out.join("migrations.rs"), migrations(&sources)?)?;
    fs::write(out.join("postgres_migrations.rs"), migrations(&sources.join("postgres"))?)
}

/// Number, title and text of each migration, `0001_state.sql`.
fn migrations(folder: &Path) -> io::Result<String> {
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut files = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    files.sort();
    let mut list = String::from("&[\n");
    for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "sql")) {
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        let named =
            name.split_once('_').and_then(|(number, title)| Some((number.parse::<i64>().ok()?, title)));
        let (number, title) =
            named.ok_or_else(|| io::Error::other(format!("{name}: expected NUMBER_TITLE.sql")))?;
        list.push_str(&format!("    ({number}, {:?}, include_str!({file:?})),\n", title.replace('_', " ")));
    }
    list.push_str("]\n");
    Ok(list)
}
