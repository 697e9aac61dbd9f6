use super::{FolderScan, Loader};
use crate::load::source::Kind;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

/// Writes a file whose modification time is so old that its stamp is reliable.
fn save(folder: &TempDir, path: &str, text: &str) {
    let path = folder.path().join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, text).unwrap();
    settle(&path);
}

fn settle(path: &Path) {
    set_modified(path, SystemTime::now() - Duration::from_secs(60));
}

fn set_modified(path: &Path, time: SystemTime) {
    File::options().append(true).open(path).unwrap().set_modified(time).unwrap();
}

fn look(loader: &mut Loader, folder: &TempDir) -> Arc<FolderScan> {
    loader.look_again(Kind::Filter, folder.path())
}

fn text(found: &FolderScan, id: &str) -> String {
    found.files[id].file.text.to_string()
}

const SCRIPT: &str = "fn inlet(body) { body.a = 1; }";
const OTHER: &str = "fn inlet(body) { body.a = 2; }";

#[test]
fn unchanged_files_are_not_read_again() {
    let (folder, mut loader) = (tempfile::tempdir().unwrap(), Loader::default());
    save(&folder, "a.rhai", SCRIPT);
    save(&folder, "deep/b.rhai", "import \"lib/m\" as m; fn inlet(body) { body.a = m::one(); }");
    save(&folder, "lib/m.rhai", "fn one() { 1 }");
    let first = look(&mut loader, &folder);
    let reads = loader.reads;
    assert!(Arc::ptr_eq(&first, &look(&mut loader, &folder)));
    assert_eq!((reads, loader.reads), (3, 3));
    save(&folder, "a.rhai", OTHER);
    let second = look(&mut loader, &folder);
    assert_eq!((text(&second, "a"), loader.reads), (OTHER.to_owned(), 4), "only that one");
    assert!(Arc::ptr_eq(&first.files["b"], &second.files["b"]));
}

#[test]
fn every_kind_of_file_change_is_seen_by_the_next_scan() {
    let (folder, mut loader) = (tempfile::tempdir().unwrap(), Loader::default());
    let path = folder.path().join("a.rhai");
    save(&folder, "a.rhai", SCRIPT);
    look(&mut loader, &folder);
    // The same length and the same modification time as before.
    let modified = path.metadata().unwrap().modified().unwrap();
    std::fs::write(&path, OTHER).unwrap();
    set_modified(&path, modified);
    assert_eq!(text(&look(&mut loader, &folder), "a"), OTHER);
    save(&folder, "new", SCRIPT);
    std::fs::rename(folder.path().join("new"), &path).unwrap();
    assert_eq!(text(&look(&mut loader, &folder), "a"), SCRIPT);
    save(&folder, "b.rhai", OTHER);
    assert_eq!(look(&mut loader, &folder).files.len(), 2);
    std::fs::rename(folder.path().join("b.rhai"), folder.path().join("c.rhai")).unwrap();
    assert_eq!(look(&mut loader, &folder).files.keys().map(|id| &**id).collect::<Vec<_>>(), ["a", "c"]);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(look(&mut loader, &folder).files.len(), 1);
    save(&folder, "deep/er/c.rhai", SCRIPT);
    let twice = look(&mut loader, &folder);
    assert_eq!((text(&twice, "c"), twice.problems.len()), (SCRIPT.to_owned(), 2), "both are reported");
    std::fs::remove_dir_all(folder.path().join("deep")).unwrap();
    let once = look(&mut loader, &folder);
    assert_eq!((text(&once, "c"), once.problems.len()), (OTHER.to_owned(), 0));
}

#[test]
fn a_recently_saved_file_is_read_again_despite_its_timestamp() {
    let (folder, mut loader) = (tempfile::tempdir().unwrap(), Loader::default());
    let path = folder.path().join("a.rhai");
    save(&folder, "a.rhai", SCRIPT);
    set_modified(&path, SystemTime::now() + Duration::from_secs(600));
    look(&mut loader, &folder);
    look(&mut loader, &folder);
    assert_eq!(loader.reads, 2);
    settle(&path);
    look(&mut loader, &folder);
    look(&mut loader, &folder);
    assert_eq!(loader.reads, 3);
}

#[test]
fn a_changed_module_changes_every_script_that_imports_it() {
    let (folder, mut loader) = (tempfile::tempdir().unwrap(), Loader::default());
    // The last one is in a hidden folder, which scans skip.
    for module in ["lib/m", "_m", "_hidden/lib/m"] {
        let uses = format!("import \"{module}\" as m; fn inlet(body) {{ body.a = m::one(); }}");
        save(&folder, "a.rhai", &uses);
        save(&folder, "b.rhai", &uses);
        save(&folder, "c.rhai", SCRIPT);
        let missing = look(&mut loader, &folder);
        save(&folder, &format!("{module}.rhai"), "fn one() { 1 }");
        let there = look(&mut loader, &folder);
        save(&folder, &format!("{module}.rhai"), "fn one() { 2 }");
        let changed = look(&mut loader, &folder);
        for id in ["a", "b"] {
            let hashes = [&missing, &there, &changed].map(|found| found.files[id].hash.clone());
            assert!(hashes[0] != hashes[1] && hashes[1] != hashes[2], "{module}, {id}");
        }
        assert_eq!(there.files["c"].hash, changed.files["c"].hash);
    }
}
