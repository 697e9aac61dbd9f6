//! `files::…`: files in the folders that are granted to the plugin.
//!
//! The work runs on a separate thread while the script waits; the wall-clock limit and the end of the turn end the
//! wait.

use super::argument::{AnyMap, RhaiResultOf, TextOrBytes, count, effect, fail, running, unfit, with_bytes};
use super::host_calls::{self, Recordable};
use super::waiting::{known_options, unknown_option};
use rhai::{Array, Dynamic, Module};
use sha2::{Digest, Sha256};
use std::time::Duration;
use valvehouse_core::text::hex;
use valvehouse_dialect::budget::{self, processor_time};
use valvehouse_dialect::value::{Bytes, Shape, json_of, live};
use valvehouse_json::Json;
use valvehouse_os::{Failure, Folders, GlobQuery, GrepQuery, Lines, WriteMode};

const PATHS: &str = "A path starts with the name of a granted folder, `data/notes.txt`; the name is \
                     optional if only one folder is granted.";

/// The module `files::…`.
pub(super) fn module() -> Module {
    let mut module = Module::new();
    effect(
        "read",
        &["path: &str", "String"],
        &format!(
            "Returns the text of a file of at most 1 MiB. {PATHS} Fails if the file does not exist or \
                  is not UTF-8 text."
        ),
    )
    .set_into_module(&mut module, |path: &str| read(path, Lines::ALL));
    effect(
        "read",
        &["path: &str", "first_line: i64", "last_line: i64", "String"],
        "Returns the lines from `first_line` to `last_line` of a file, counted from 1; at most 1 MiB.",
    )
    .set_into_module(&mut module, |path: &str, first_line: i64, last_line: i64| {
        let first = count("files::read", "first_line", first_line)?;
        let last = count("files::read", "last_line", last_line)?;
        read(path, Lines { first, last: Some(last) })
    });
    effect(
        "write",
        &["path: &str", "text: &str"],
        "Replaces the content of a file with a text of at most 1 MiB. The write is atomic: a reader gets \
         the old text or the new one. The folder must exist.",
    )
    .set_into_module(&mut module, |path: &str, text: &str| write(path, text, WriteMode::default()));
    effect(
        "write",
        &["path: &str", "text: &str", "options: map"],
        "Writes a text. Options: `append` adds it at the end of the file, `parents` creates missing folders.",
    )
    .set_into_module(&mut module, |path: &str, text: &str, options: AnyMap| {
        write(path, text, writing(&options)?)
    });
    effect(
        "read_bytes",
        &["path: &str", "Bytes"],
        "Returns the bytes of a file of at most 8 MiB, for example an image.",
    )
    .set_into_module(&mut module, |path: &str| -> RhaiResultOf<Bytes> {
        let path = path.to_owned();
        once("files::read_bytes", vec![path.as_str().into()], || {
            Bytes::new(within("read_bytes", move |folders| folders.read_bytes(&path))?)
        })
    });
    effect(
        "write_bytes",
        &["path: &str", "data: TextOrBytes"],
        "Replaces the content of a file with at most 8 MiB of bytes, like files::write() for a text.",
    )
    .set_into_module(&mut module, |path: &str, data: TextOrBytes| {
        write_bytes(path, &data, WriteMode::default())
    });
    effect(
        "write_bytes",
        &["path: &str", "data: TextOrBytes", "options: map"],
        "Writes bytes with the options of files::write(): `append`, `parents`.",
    )
    .set_into_module(&mut module, |path: &str, data: TextOrBytes, options: AnyMap| {
        write_bytes(path, &data, writing(&options)?)
    });
    looking(&mut module);
    effect(
        "mkdir",
        &["path: &str", "bool"],
        "Creates a folder and its missing parents; returns false if it exists.",
    )
    .set_into_module(&mut module, |path: &str| -> RhaiResultOf<bool> {
        let path = path.to_owned();
        once("files::mkdir", vec![path.as_str().into()], || {
            within("mkdir", move |folders| folders.make(&path)).map(|made| made.created)
        })
    });
    module
}

/// Adds the read-only functions.
fn looking(module: &mut Module) {
    effect(
        "list",
        &["Array"],
        "Returns the entries of the granted folder, or the granted folders if there are several.",
    )
    .set_into_module(module, || list("."));
    effect(
        "list",
        &["path: &str", "Array"],
        "Returns the entries of a folder, sorted by name, each a map `#{ name, path, kind, size }`. `kind` \
         is `file`, `folder`, `link` or `other`; only a file has a `size`, in bytes.",
    )
    .set_into_module(module, list);
    effect(
        "exists",
        &["path: &str", "bool"],
        "Returns true if a path exists. Fails for a path outside of the granted folders.",
    )
    .set_into_module(module, |path: &str| {
        let path = path.to_owned();
        once("files::exists", vec![path.as_str().into()], || {
            within("exists", move |folders| folders.exists(&path))
        })
    });
    effect(
        "glob",
        &["pattern: &str", "Array"],
        "Returns the paths of all files that match a pattern, for example `**/*.md`, in alphabetical order: \
         `*` and `?` within a name, `**` across folders, `{a,b}`, `[a-z]`.",
    )
    .set_into_module(module, glob);
    effect(
        "grep",
        &["pattern: &str", "Array"],
        "Returns the lines of all files that match a regular expression, each a map `#{ path, line, text }`.",
    )
    .set_into_module(module, |pattern: &str| grep(pattern, None));
    effect(
        "grep",
        &["pattern: &str", "path: &str", "Array"],
        "Returns the lines of one file, or of the files below a folder, that match a regular expression.",
    )
    .set_into_module(module, |pattern: &str, path: &str| grep(pattern, Some(path)));
}

/// Makes a call once, even if its step runs again after a pause.
fn once<T: Recordable>(
    function: &str,
    arguments: Vec<Json>,
    work: impl FnOnce() -> RhaiResultOf<T>,
) -> RhaiResultOf<T> {
    host_calls::once(function, || arguments.into(), work)
}

/// The processor time that is charged for passing a call to another thread and back.
const WAY: Duration = Duration::from_micros(40);

/// Runs work on the plugin's folders while the script waits. Its processor time and that of passing it to the
/// thread are charged to the script.
fn within<T: Send + 'static>(
    function: &str,
    act: impl FnOnce(&Folders) -> Result<T, Failure> + Send + 'static,
) -> RhaiResultOf<T> {
    let function = format!("files::{function}");
    let call = running(&function)?;
    let folders = call.resources.folders.clone();
    let work = move || {
        let began = processor_time();
        let done = act(&folders);
        let spent = began.and_then(|began| Some(processor_time()?.saturating_sub(began)));
        (done, spent.unwrap_or(Duration::ZERO))
    };
    let done = budget::wait(&call.turn, tokio::task::spawn_blocking(work))?;
    let (done, spent) =
        done.map_err(|error| fail(&function, format!("the operation was stopped: {error}")))?;
    budget::spend(spent + WAY).and_then(|()| budget::charge_work(WAY)).map_err(budget::ended)?;
    done.map_err(|failure| fail(&function, failure.message_for(&call.caller.plugin)))
}

fn read(path: &str, lines: Lines) -> RhaiResultOf<String> {
    once("files::read", vec![path.into(), format!("{lines:?}").into()], || read_lines(path, lines))
}

fn read_lines(path: &str, lines: Lines) -> RhaiResultOf<String> {
    let path = path.to_owned();
    let read = within("read", move |folders| folders.read(&path, lines))?;
    if !read.cut {
        return Ok(read.text);
    }
    let (path, last, total) = (read.path, read.last_line, read.total_lines);
    let why = format!(
        "`{path}` exceeded its limit of 1 MiB, which ends with line {last} of {total}; read a range of \
         lines: files::read(path, first_line, last_line)"
    );
    Err(fail("files::read", why))
}

fn write(path: &str, text: &str, how: WriteMode) -> RhaiResultOf<()> {
    let (path, text) = (path.to_owned(), text.to_owned());
    once("files::write", vec![path.as_str().into(), text.as_str().into()], || {
        within("write", move |folders| folders.write(&path, &text, how)).map(|_| ())
    })
}

fn write_bytes(path: &str, data: &Dynamic, how: WriteMode) -> RhaiResultOf<()> {
    const FUNCTION: &str = "files::write_bytes";
    let (path, data) = (path.to_owned(), with_bytes(FUNCTION, "data", data, |bytes| Ok(bytes.to_vec()))?);
    let written = hex(&Sha256::digest(&data));
    once(FUNCTION, vec![path.as_str().into(), written.into()], || {
        within("write_bytes", move |folders| folders.write_bytes(&path, &data, how)).map(|_| ())
    })
}

fn writing(options: &Dynamic) -> RhaiResultOf<WriteMode> {
    const FUNCTION: &str = "files::write";
    let Ok(Json::Object(options_map)) = json_of(options) else {
        return Err(unfit(FUNCTION, "options", "a map", options));
    };
    let mut how = WriteMode::default();
    for (name, value) in options_map.entries() {
        let truth = value.as_bool();
        let truth = truth
            .ok_or_else(|| fail(FUNCTION, format!("`{name}` must be true or false, not {}", value.kind())));
        match name.as_str() {
            "append" => how.append = truth?,
            "parents" => how.parents = truth?,
            other => return Err(unknown_option(FUNCTION, other, &known_options(FUNCTION))),
        }
    }
    Ok(how)
}

fn list(path: &str) -> RhaiResultOf<Array> {
    let path = path.to_owned();
    once("files::list", vec![path.as_str().into()], || {
        let listing = within("list", move |folders| folders.list(&path))?;
        whole("list", listing.cut, "list the subfolders separately")?;
        Ok(elements(&listing.into_json(), "entries"))
    })
}

fn glob(pattern: &str) -> RhaiResultOf<Array> {
    let pattern = pattern.to_owned();
    once("files::glob", vec![pattern.as_str().into()], || {
        let found = within("glob", move |folders| folders.glob(GlobQuery { pattern: &pattern, path: None }))?;
        whole("glob", found.cut, "use a pattern for fewer files, for example `notes/*.md`")?;
        Ok(elements(&found.into_json(), "paths"))
    })
}

fn grep(pattern: &str, path: Option<&str>) -> RhaiResultOf<Array> {
    let (pattern, path) = (pattern.to_owned(), path.map(str::to_owned));
    once("files::grep", vec![pattern.as_str().into(), path.as_deref().into()], || {
        let found = within("grep", move |folders| {
            folders.grep(GrepQuery { pattern: &pattern, path: path.as_deref(), glob: None, context: 0 })
        })?;
        whole("grep", found.cut, "search below one folder, or for a longer pattern")?;
        Ok(elements(&found.into_json(), "matches"))
    })
}

/// Fails if a result is incomplete, because a native array cannot indicate this.
fn whole(function: &str, cut: bool, way_out: &str) -> RhaiResultOf<()> {
    if !cut {
        return Ok(());
    }
    Err(fail(&format!("files::{function}"), format!("the result exceeded its limit; {way_out}")))
}

fn elements(json: &Json, key: &str) -> Array {
    let items = json.list(key);
    items.iter().map(|item| live(item, Shape::Plain)).collect()
}
