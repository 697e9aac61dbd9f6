//! Lists the scripts that come with the binary, for `valvehouse new --from`: whatever lies in `filters/`,
//! `tools/` and `actions/`, so that nothing is to be written by hand when one is added.

// That is how a build script talks to Cargo.
#![allow(clippy::print_stdout)]

use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let mut files = Vec::new();
    for folder in ["filters", "tools", "actions"] {
        println!("cargo::rerun-if-changed={folder}");
        collect(&root.join(folder), &mut files)?;
    }
    files.sort();
    let mut list = String::from("&[\n");
    for file in &files {
        let within = file.strip_prefix(&root).unwrap_or(file).to_string_lossy().replace('\\', "/");
        list.push_str(&format!("    ({within:?}, include_str!({:?})),\n", file.to_string_lossy()));
    }
    list.push_str("]\n");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    fs::write(out.join("shipped.rs"), list)
}

/// The files in a folder and below, without hidden ones.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        let is_text = path.extension().is_some_and(|extension| extension == "rhai" || extension == "json");
        if path.is_dir() && !is_hidden {
            collect(&path, files)?;
        } else if is_text && !is_hidden {
            files.push(path);
        }
    }
    Ok(())
}
