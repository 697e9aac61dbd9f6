//! Tests of granted folders: attempts to leave them, and legitimate access.

use super::{EntryKind, Folders, GlobQuery, GrepQuery, Lines, WriteMode};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const SECRET: &str = "TOP SECRET";

/// The granted folders `data` and `notes`, next to private files.
struct House {
    dir: TempDir,
}

impl House {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let house = Self { dir };
        for folder in ["data/sub/deep", "data/data", "notes", "database", "data2"] {
            fs::create_dir_all(house.at(folder)).unwrap();
        }
        for path in ["secret.txt", "database/secret.txt", "data2/secret.txt"] {
            house.file(path, SECRET);
        }
        house.file("data/a.txt", "one\ntwo\nthree\n");
        house.file("data/sub/b.md", "needle in b\n");
        house.file("data/sub/deep/c.md", "x\nneedle in c\ny\n");
        house.file("data/data/a.txt", "inner\n");
        house.file("notes/n.md", "a note\n");
        house
    }

    fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn file(&self, path: &str, text: &str) {
        fs::write(self.at(path), text).unwrap();
    }

    fn link(&self, to: impl AsRef<Path>, path: &str) {
        symlink(to, self.at(path)).unwrap();
    }

    fn one(&self) -> Folders {
        Folders::new(&[self.at("data")])
    }

    fn two(&self) -> Folders {
        Folders::new(&[self.at("data"), self.at("notes")])
    }

    /// Returns all files outside of the granted folders with their contents.
    fn outside(&self) -> BTreeMap<PathBuf, String> {
        fn add(path: &Path, all: &mut BTreeMap<PathBuf, String>) {
            for entry in fs::read_dir(path).unwrap() {
                let path = entry.unwrap().path();
                let own = if path.is_dir() { "folder".into() } else { fs::read_to_string(&path).unwrap() };
                if path.is_dir() && !path.ends_with("data") && !path.ends_with("notes") {
                    add(&path, all);
                }
                all.insert(path, own);
            }
        }
        let mut all = BTreeMap::new();
        add(self.dir.path(), &mut all);
        all
    }
}

fn text(folders: &Folders, path: &str) -> String {
    folders.read(path, Lines::ALL).unwrap_or_else(|failure| panic!("{path}: {failure}")).text
}

fn refused<T: std::fmt::Debug>(result: Result<T, crate::Failure>) -> String {
    result.unwrap_err().to_string()
}

fn glob(pattern: &str) -> GlobQuery<'_> {
    GlobQuery { pattern, path: None }
}

fn grep(pattern: &str) -> GrepQuery<'_> {
    GrepQuery { pattern, path: None, glob: None, context: 0 }
}

/// Returns paths that try to lead to a private file: links, and notations of paths.
fn ways_out(house: &House) -> Vec<String> {
    let base = house.dir.path().to_str().unwrap().to_owned();
    let links: [(&str, String); 18] = [
        ("l_file", "../secret.txt".into()),
        ("l_file_abs", format!("{base}/secret.txt")),
        ("l_up", "..".into()),
        ("l_up_slash", "../".into()),
        ("l_up_abs", base.clone()),
        ("l_root", "/".into()),
        ("l_chain", "l_file".into()),
        ("l_chain_dir", "l_up".into()),
        ("l_long", "sub/deep/../../../secret.txt".into()),
        ("l_neighbour", "../database".into()),
        ("l_again", "../data/../secret.txt".into()),
        ("l_back_in", "../data".into()),
        ("l_proc_root", format!("/proc/self/root{base}")),
        ("l_proc_cwd", "/proc/self/cwd".into()),
        ("l_fd", "/proc/self/fd".into()),
        ("l_loop", "l_loop".into()),
        ("l_new", "../new.txt".into()),
        ("l_new_abs", format!("{base}/new.txt")),
    ];
    for (name, to) in &links {
        house.link(to, &format!("data/{name}"));
    }
    house.link("../..", "data/sub/l_up2");
    house.link("../../secret.txt", "data/sub/l_file2");
    house.link("l_up2/secret.txt", "data/sub/l_through");

    let mut ways: Vec<String> = Vec::new();
    for (name, _) in &links {
        for tail in ["", "/", "/secret.txt", "/database/secret.txt", "/data/../secret.txt", "/new2.txt"] {
            ways.push(format!("{name}{tail}"));
        }
        ways.push(format!("l_root{base}/{name}"));
        ways.push(format!("{base}/data/{name}/secret.txt"));
    }
    let more = [
        "../secret.txt",
        "data/../secret.txt",
        "data/../../secret.txt",
        "sub/../../secret.txt",
        "./../secret.txt",
        "..//secret.txt",
        "sub/deep/../../../secret.txt",
        "..",
        "../",
        "../.",
        "/..",
        "...",
        ".../secret.txt",
        "../database/secret.txt",
        "../data2/secret.txt",
        "data2/secret.txt",
        "database/secret.txt",
        "..\\secret.txt",
        "sub\\..\\..\\secret.txt",
        "C:\\secret.txt",
        "C:/secret.txt",
        "\\\\host\\secret.txt",
        "//?/secret.txt",
        "%2e%2e/secret.txt",
        "%2e%2e%2fsecret.txt",
        "..%2fsecret.txt",
        "..%00/secret.txt",
        "..\0/secret.txt",
        "a.txt\0/../../secret.txt",
        "../secret.txt\0.md",
        "\0",
        "..\n/secret.txt",
        "a.txt\n",
        "~/secret.txt",
        "~",
        "~root/secret.txt",
        "$HOME/secret.txt",
        "${PWD}/../secret.txt",
        "`pwd`/secret.txt",
        "\u{2024}\u{2024}/secret.txt",
        "\u{2025}/secret.txt",
        "\u{ff0e}\u{ff0e}/secret.txt",
        "..\u{2215}secret.txt",
        "..\u{ff0f}secret.txt",
        "..\u{200b}/secret.txt",
        ".\u{200b}./secret.txt",
        "\u{202e}../secret.txt",
        "\u{feff}../secret.txt",
        " ../secret.txt",
        ".. /secret.txt",
        ".. / secret.txt",
        "/proc/self/root/secret.txt",
        "/proc/self/cwd/secret.txt",
        "/proc/self/environ",
        "/proc/self/fd/0",
        "/proc/1/root",
        "/dev/fd/0",
        "/dev/stdin",
        "/etc/passwd",
        "/",
        "//",
        "///etc/passwd",
        "file:///etc/passwd",
        "l_root/etc/passwd",
        "l_root/proc/self/environ",
        "l_fd/0",
        "l_fd/3",
        "l_fd/4/secret.txt",
        "l_fd/5/../secret.txt",
        "sub/l_up2/secret.txt",
        "sub/l_file2",
        "sub/l_through",
        "l_back_in/a.txt",
        "l_back_in/l_file",
        "sub/l_up2/data/a.txt",
        "l_new",
        "l_new_abs",
        "data/l_file",
        "data/data/../l_file",
    ];
    ways.extend(more.map(str::to_owned));
    let absolute = [
        "/secret.txt",
        "/data/../secret.txt",
        "/database/secret.txt",
        "/data2/secret.txt",
        "/data/l_file",
        "/data/./l_up/secret.txt",
        "//data//..//secret.txt",
        "/data/sub/l_file2",
        "",
        "/",
        "/.",
        "/datab",
    ];
    ways.extend(absolute.map(|tail| format!("{base}{tail}")));
    ways.push(format!("/proc/self/root{base}/secret.txt"));
    ways.push(format!("/proc/self/root{base}/data/a.txt"));
    ways.push("../".repeat(40) + "etc/passwd");
    ways.push("sub/".repeat(2_000) + "a.txt");
    ways.push("x".repeat(300));
    ways.sort();
    ways.dedup();
    ways
}

#[test]
fn no_path_leads_outside() {
    let house = House::new();
    let ways = ways_out(&house);
    assert!(ways.len() >= 200, "{}", ways.len());
    let before = house.outside();
    for folders in [house.one(), house.two()] {
        for way in &ways {
            let mut outputs = Vec::new();
            let mut tell = |output: String| outputs.push(output);
            tell(format!("{:?}", folders.read(way, Lines::ALL)));
            tell(format!("{:?}", folders.exists(way)));
            let listed = folders.list(way);
            tell(format!("{listed:?}"));
            for pattern in ["**/*secret*", "**", way] {
                let found = folders.glob(GlobQuery { pattern, path: Some(way) });
                tell(format!("{:?}", found.map(|found| found.paths.contains(&"secret.txt".to_owned()))));
                let found = folders.grep(GrepQuery {
                    pattern: "SECRET|root:",
                    path: Some(way),
                    glob: Some(pattern),
                    context: 2,
                });
                tell(format!("{:?}", found.map(|found| found.matches)));
            }
            tell(format!("{:?}", folders.write(way, "gone", WriteMode::default())));
            tell(format!("{:?}", folders.write(way, "gone", WriteMode { append: true, parents: true })));
            tell(format!("{:?}", folders.make(way)));
            tell(format!("{:?}", folders.make(&format!("{way}/made"))));
            tell(format!(
                "{:?}",
                folders.write(&format!("{way}/f"), "gone", WriteMode { parents: true, append: false })
            ));
            tell(format!("{:?}", folders.folder(way)));
            for output in outputs {
                assert!(!output.contains(SECRET) && !output.contains("root:x:"), "{way}: {output}");
                assert!(!output.contains("database/") || output.contains(way.as_str()), "{way}: {output}");
            }
            let after = house.outside();
            assert_eq!(after, before, "{way} changed something outside");
        }
        let patterns = ["**", "**/*", "../*", "/**/secret.txt", "**/../*", "{..,sub}/*", "[.][.]/secret.txt"];
        for pattern in patterns {
            if let Ok(found) = folders.glob(glob(pattern)) {
                let outside = |path: &&String| !path.starts_with("data/") && !path.starts_with("notes/");
                assert!(!found.paths.iter().any(|path| outside(&path)), "{pattern}: {found:?}");
            }
        }
        let found = folders.grep(grep("SECRET|root:x:")).unwrap();
        assert!(found.matches.is_empty(), "{found:?}");
    }
}

#[test]
fn errors_do_not_reveal_whether_an_outside_file_exists() {
    let house = House::new();
    house.link("../secret.txt", "data/there");
    house.link("../nothing.txt", "data/gone!");
    house.link("..", "data/up");
    let folders = house.one();
    let base = house.dir.path().to_str().unwrap();
    let pairs = [
        ("there".to_owned(), "gone!".to_owned()),
        ("up/secret.txt".to_owned(), "up/no-such.txt".to_owned()),
        ("up/database".to_owned(), "up/database2x".to_owned()),
        (format!("{base}/secret.txt"), format!("{base}/nothing.txt")),
        ("/etc/passwd".to_owned(), "/etc/passwd2".to_owned()),
    ];
    for (there, gone) in pairs {
        let same = |one: String, other: String| {
            assert_eq!(one.replace(&there, "…"), other.replace(&gone, "…"), "{there} and {gone}");
        };
        same(refused(folders.read(&there, Lines::ALL)), refused(folders.read(&gone, Lines::ALL)));
        same(refused(folders.exists(&there)), refused(folders.exists(&gone)));
        same(refused(folders.list(&there)), refused(folders.list(&gone)));
        let write = |path: &str| refused(folders.write(path, "x", WriteMode::default()));
        same(write(&there), write(&gone));
        same(refused(folders.make(&there)), refused(folders.make(&gone)));
        let grep = |path: &str| refused(folders.grep(GrepQuery { path: Some(path), ..grep("x") }));
        same(grep(&there), grep(&gone));
    }
}

#[test]
fn swapping_a_path_during_use_does_not_lead_outside() {
    let house = House::new();
    fs::create_dir(house.at("data/real")).unwrap();
    house.file("data/real/secret.txt", "inside");
    let folders = house.one();
    let is_over = AtomicBool::new(false);
    let (flip, real, leaf) = (house.at("data/flip"), house.at("data/real"), house.at("data/leaf"));
    let before = house.outside();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                // A folder is replaced by a link to the outside and back; a file is replaced by a link.
                let _ = fs::rename(&real, &flip);
                fs::write(&leaf, "inside").unwrap();
                let _ = fs::rename(&flip, &real);
                let _ = symlink(house.dir.path(), &flip);
                let _ = fs::remove_file(&leaf);
                let _ = symlink(house.at("secret.txt"), &leaf);
                let _ = fs::remove_file(&flip);
                let _ = fs::remove_file(&leaf);
            }
        });
        let end = Instant::now() + Duration::from_secs(2);
        let mut good = 0;
        while Instant::now() < end {
            for path in ["flip/secret.txt", "leaf"] {
                if let Ok(read) = folders.read(path, Lines::ALL) {
                    assert!(read.text.is_empty() || read.text == "inside", "{path}: {}", read.text);
                    good += 1;
                }
                let _ = folders.write(path, "inside", WriteMode::default());
                let _ = folders.write(path, "", WriteMode { append: true, parents: true });
            }
            let found = folders.grep(grep(SECRET)).unwrap();
            assert!(found.matches.is_empty(), "{found:?}");
            if let Ok(listing) = folders.list("flip") {
                assert!(!listing.entries.iter().any(|entry| entry.name == "database"), "{listing:?}");
            }
        }
        is_over.store(true, Relaxed);
        assert!(good > 0, "nothing was read");
    });
    assert_eq!(house.outside(), before);
}

#[test]
fn paths_are_resolved_with_folder_name_relative_or_absolute() {
    let house = House::new();
    let (one, two) = (house.one(), house.two());
    for path in ["a.txt", "data/a.txt", "./a.txt", "data//a.txt", "./data/./a.txt", "a.txt/"] {
        assert_eq!(text(&one, path), "one\ntwo\nthree\n", "{path}");
    }
    // The first part of a path is the name of the folder if possible.
    assert_eq!(text(&one, "data/data/a.txt"), "inner\n");
    assert_eq!(text(&two, "data/a.txt"), "one\ntwo\nthree\n");
    assert_eq!(text(&two, "notes/n.md"), "a note\n");
    let absolute = house.at("data/a.txt");
    assert_eq!(text(&two, absolute.to_str().unwrap()), "one\ntwo\nthree\n");
    assert_eq!(one.read("a.txt", Lines::ALL).unwrap().path, "data/a.txt");
    assert_eq!(
        refused(two.read("a.txt", Lines::ALL)),
        "`a.txt` is outside of the granted folders: `data`, `notes`"
    );
    let failure = Folders::default().read("a.txt", Lines::ALL).unwrap_err();
    assert_eq!(
        failure.message_for("reader"),
        "no folder is granted; to allow it: valvehouse grant reader files=FOLDER"
    );
    let failure = Folders::new(&[house.at("later")]).read("x", Lines::ALL).unwrap_err();
    assert!(failure.message.starts_with("the granted folder `later` does not exist"), "{failure}");
    assert!(failure.grant.is_some());
}

#[test]
fn a_granted_folder_may_itself_be_a_link() {
    let house = House::new();
    house.link("data", "current");
    let folders = Folders::new(&[house.at("current")]);
    assert_eq!(text(&folders, "current/a.txt"), "one\ntwo\nthree\n");
    assert_eq!(text(&folders, house.at("current/a.txt").to_str().unwrap()), "one\ntwo\nthree\n");
    let real = fs::canonicalize(house.at("data/a.txt")).unwrap();
    assert_eq!(text(&folders, real.to_str().unwrap()), "one\ntwo\nthree\n");
    assert!(folders.read("../secret.txt", Lines::ALL).is_err());
}

#[test]
fn unusual_but_valid_names_work() {
    let house = House::new();
    let folders = house.one();
    let names = [
        "with space.txt",
        ".hidden",
        "..dots",
        "...",
        "ünïcode-名前.txt",
        "🦀.md",
        "a%2fb",
        "~x",
        "-rf",
        "*?.md",
        "a:b",
        "'quoted\"",
        ".config/.inner/x",
        "x.tar.gz",
        " lead",
        "trail ",
        "$HOME",
        "é\u{301}",
    ];
    for name in names {
        let written = folders.write(name, name, WriteMode { parents: true, append: false }).unwrap();
        assert_eq!(written.path, format!("data/{name}"));
        assert_eq!(text(&folders, name), name);
        assert_eq!(text(&folders, &written.path), name, "as the answer says it");
        assert!(folders.exists(name).unwrap());
        let found = folders.grep(GrepQuery { path: Some(name), ..grep(".") }).unwrap();
        assert_eq!(found.matches[0].text, name);
    }
    let listed = folders.list(".").unwrap();
    for name in names.iter().filter(|name| !name.contains('/')) {
        assert!(listed.entries.iter().any(|entry| entry.name == *name), "{name}");
    }
    house.link("sub/b.md", "data/inner-link");
    assert_eq!(text(&folders, "inner-link"), "needle in b\n");
    house.link("sub/deep", "data/inner-folder");
    assert!(text(&folders, "inner-folder/c.md").contains("needle in c"));
}

#[test]
fn reading_returns_the_requested_lines() {
    let house = House::new();
    let folders = house.one();
    let read = |first, last| folders.read("a.txt", Lines { first, last });
    let some = read(2, Some(2)).unwrap();
    assert_eq!((some.text.as_str(), some.first_line, some.last_line, some.total_lines), ("two\n", 2, 2, 3));
    assert_eq!(read(2, Some(99)).unwrap().text, "two\nthree\n");
    assert_eq!(read(3, Some(1)).unwrap().text, "");
    assert_eq!(refused(read(4, None)), "cannot read `data/a.txt` from line 4: it has 3 lines");

    house.file("data/empty", "");
    let empty = folders.read("empty", Lines::ALL).unwrap();
    assert_eq!((empty.text.as_str(), empty.last_line, empty.total_lines), ("", 0, 0));
    house.file("data/big", &"0123456789\n".repeat(200_000));
    let big = folders.read("big", Lines::ALL).unwrap();
    assert!(big.cut && big.text.len() <= 1 << 20 && big.text.ends_with("9\n"));
    assert_eq!((big.last_line, big.total_lines), (big.text.lines().count(), 200_000));
    house.file("data/one-line", &"ä".repeat(1 << 20));
    let long = folders.read("one-line", Lines::ALL).unwrap();
    assert!(long.cut && long.text.len() == 1 << 20);

    fs::write(house.at("data/binary"), [b'a', 0, 159]).unwrap();
    assert_eq!(
        refused(folders.read("binary", Lines::ALL)),
        "cannot read `data/binary`: its 3 bytes are not UTF-8 text"
    );
    fs::File::create(house.at("data/huge")).unwrap().set_len(1 << 40).unwrap();
    assert!(
        refused(folders.read("huge", Lines::ALL))
            .contains("1099511627776 bytes exceeded the limit of 16 MiB")
    );
    assert!(refused(folders.read("sub", Lines::ALL)).contains("it is a folder, not a file"));
    assert!(refused(folders.read("none", Lines::ALL)).contains("it does not exist"));
    assert!(refused(folders.read("a.txt/x", Lines::ALL)).contains("not a folder"));
}

#[test]
fn writing_replaces_a_file_and_keeps_its_permissions() {
    let house = House::new();
    let folders = house.one();
    house.file("data/run.sh", "old");
    fs::set_permissions(house.at("data/run.sh"), fs::Permissions::from_mode(0o750)).unwrap();
    let written = folders.write("run.sh", "new", WriteMode::default()).unwrap();
    assert!(!written.created && written.bytes == 3);
    let mode = fs::metadata(house.at("data/run.sh")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o750);
    assert!(folders.write("fresh", "x", WriteMode::default()).unwrap().created);

    let more = WriteMode { append: true, parents: false };
    assert!(folders.write("log", "a\n", more).unwrap().created);
    assert!(!folders.write("log", "b\n", more).unwrap().created);
    assert_eq!(text(&folders, "log"), "a\nb\n");

    let missing = refused(folders.write("no/such/x", "x", WriteMode::default()));
    assert!(missing.contains("the folder `data/no/such` does not exist; create it first"), "{missing}");
    folders.write("no/such/x", "x", WriteMode { parents: true, append: false }).unwrap();
    assert!(refused(folders.write("sub", "x", WriteMode::default())).contains("it is a folder"));
    assert!(refused(folders.write(".", "x", WriteMode::default())).contains("granted folder"));
    let large = "x".repeat((1 << 20) + 1);
    assert!(
        refused(folders.write("large", &large, WriteMode::default())).contains("exceed the limit of 1 MiB")
    );
    house.link("a.txt", "data/inner");
    folders.write("inner", "through", WriteMode::default()).unwrap();
    assert_eq!(text(&folders, "a.txt"), "through");
    assert!(fs::symlink_metadata(house.at("data/inner")).unwrap().is_symlink());

    assert!(folders.make("x/y/z").unwrap().created);
    assert!(!folders.make("x/y/z").unwrap().created);
    assert!(!folders.make(".").unwrap().created);
    assert!(refused(folders.make("a.txt")).contains("it is a file"));
    let left: Vec<_> = fs::read_dir(house.at("data")).unwrap().flatten().map(|it| it.file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().ends_with(".tmp")), "{left:?}");
}

#[test]
fn writes_are_atomic() {
    let house = House::new();
    let folders = house.one();
    let texts = ["a".repeat(300_000), "b".repeat(200_000)];
    folders.write("f", &texts[0], WriteMode::default()).unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for round in 0..100 {
                folders.write("f", &texts[round % 2], WriteMode::default()).unwrap();
            }
        });
        while !writer.is_finished() {
            let read = text(&folders, "f");
            assert!(texts.contains(&read), "{} bytes", read.len());
        }
    });
}

#[test]
fn pipes_sockets_and_devices_are_refused_without_blocking() {
    let house = House::new();
    let fifo = house.at("data/pipe");
    let mode = rustix::fs::Mode::RWXU;
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(house.at("data/socket")).unwrap();
    let folders = house.one();
    let (done, waits) = mpsc::channel();
    std::thread::spawn(move || {
        let mut refusals = Vec::new();
        let devices = Folders::new(&["/dev".into()]);
        let cases =
            [(&folders, "pipe", "a pipe"), (&folders, "socket", "a socket"), (&devices, "zero", "a device")];
        for (folders, path, kind) in cases {
            let more = WriteMode { append: true, parents: false };
            for refusal in [
                refused(folders.read(path, Lines::ALL)),
                refused(folders.write(path, "x", WriteMode::default())),
                refused(folders.write(path, "x", more)),
                refused(folders.grep(GrepQuery { path: Some(path), ..grep("x") })),
            ] {
                refusals.push((refusal, kind));
            }
        }
        let listed = folders.list(".").unwrap();
        let pipe = listed.entries.iter().find(|entry| entry.name == "pipe").unwrap().kind;
        folders.grep(grep("x")).unwrap();
        folders.glob(glob("**")).unwrap();
        done.send((refusals, pipe)).unwrap();
    });
    let (refusals, pipe) = waits.recv_timeout(Duration::from_secs(20)).expect("something waits");
    for (refusal, kind) in refusals {
        assert!(refusal.contains(&format!("it is {kind}, not a file")), "{refusal}");
    }
    assert_eq!(pipe, EntryKind::Other);
}

#[test]
fn a_listing_is_sorted_and_names_the_types() {
    let house = House::new();
    house.link("../secret.txt", "data/out");
    let listing = house.two().list("data").unwrap();
    let entries: Vec<_> =
        listing.entries.iter().map(|entry| (entry.path.as_str(), entry.kind, entry.size)).collect();
    let expected = [
        ("data/a.txt", EntryKind::File, Some(14)),
        ("data/data", EntryKind::Folder, None),
        ("data/out", EntryKind::Link, None),
        ("data/sub", EntryKind::Folder, None),
    ];
    assert_eq!(entries, expected);
    let all = house.two().list(".").unwrap();
    assert_eq!(all.entries.iter().map(|entry| entry.path.as_str()).collect::<Vec<_>>(), ["data", "notes"]);
    assert!(refused(house.one().list("a.txt")).contains("not a folder"));
    fs::create_dir(house.at("data/many")).unwrap();
    for number in 0..2_010 {
        house.file(&format!("data/many/{number}"), "");
    }
    let many = house.one().list("many").unwrap();
    assert!(many.cut && many.entries.len() == 2_000);
}

#[test]
fn glob_matches_paths_in_each_notation() {
    let house = House::new();
    let found = |folders: &Folders, pattern: &str| folders.glob(glob(pattern)).unwrap().paths;
    let (one, two) = (house.one(), house.two());
    let all = ["data/sub/b.md", "data/sub/deep/c.md"];
    for pattern in ["**/*.md", "sub/**/*.md", "data/sub/**/*.md", "./**/*.md", "**/{b,c}.md", "**/[bc].md"] {
        assert_eq!(found(&one, pattern), all, "{pattern}");
    }
    assert_eq!(found(&one, &format!("{}/**/*.md", house.at("data").display())), all);
    assert_eq!(found(&one, "*.txt"), ["data/a.txt"]);
    assert_eq!(found(&one, "sub/*"), ["data/sub/b.md"]);
    assert_eq!(found(&two, "*.md"), ["notes/n.md"]);
    assert_eq!(found(&two, "**/*.md").len(), 3);
    let below = two.glob(GlobQuery { pattern: "*.md", path: Some("data/sub") }).unwrap();
    assert_eq!(below.paths, ["data/sub/b.md"]);
    assert!(refused(one.glob(glob("a[")).map(|_| ())).contains("invalid pattern `a[`"));
    for number in 0..2_010 {
        house.file(&format!("data/{number}.log"), "");
    }
    let many = one.glob(glob("*.log")).unwrap();
    assert!(many.cut && many.paths.len() == 2_000);
}

#[test]
fn grep_reports_file_line_and_context() {
    let house = House::new();
    fs::write(house.at("data/binary"), b"needle\0").unwrap();
    let found = house.two().grep(GrepQuery { context: 1, ..grep("(?i)NEEDLE in .") }).unwrap();
    let matches: Vec<_> =
        found.matches.iter().map(|it| (it.path.as_str(), it.line, it.text.as_str())).collect();
    let expected = [("data/sub/b.md", 1, "needle in b"), ("data/sub/deep/c.md", 2, "needle in c")];
    assert_eq!(matches, expected);
    assert_eq!(found.matches[1].before, ["x"]);
    assert_eq!(found.matches[1].after, ["y"]);
    assert_eq!((found.files, found.skipped, found.cut), (5, 1, false));
    let some = house.one().grep(GrepQuery { glob: Some("**/c.*"), ..grep("needle") }).unwrap();
    assert_eq!(some.matches.len(), 1);
    let some = house.one().grep(GrepQuery { path: Some("sub/deep"), ..grep("needle") }).unwrap();
    assert_eq!(some.matches.len(), 1);
    assert!(refused(house.one().grep(grep("(?=x)"))).contains("look-around"));
    assert!(refused(house.one().grep(grep("x{1000}{1000}"))).contains("invalid pattern"));
    house.file("data/many", &"needle\n".repeat(5_000));
    let many = house.one().grep(grep("needle")).unwrap();
    assert!(many.cut && many.matches.len() == 500);
    house.file("data/many", &format!("needle{}\n", "x".repeat(100_000)));
    let long = house.one().grep(GrepQuery { path: Some("many"), ..grep("needle") }).unwrap();
    assert!(long.matches[0].text.len() < 1_100 && long.matches[0].text.ends_with("(100006 bytes)"));
    // The time is linear, whereas other engines take exponential time.
    house.file("data/many", &"a".repeat(50_000));
    assert!(house.one().grep(grep("(a+)+$b")).unwrap().matches.is_empty());
}
