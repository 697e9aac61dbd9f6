//! One file: read, drafted, written, checked, summed up.

use super::arguments::{Arguments, Format, Global};
use super::host::Host;
use super::output::{self, Exit, Failure};
use super::{files, measure, summary};
use clap::Parser;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use valvehouse_port::{Draft, MAX_BYTES};

/// Runs a command line, whose first word is the name of the program.
pub(crate) fn run(words: impl Iterator<Item = OsString>) -> ExitCode {
    let arguments = match Arguments::try_parse_from(words) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are printed here as well; a closed pipe is not an error.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage.into() } else { Exit::Done.into() };
        }
    };
    let is_json = arguments.global.format == Format::Json;
    let done = match &arguments.measure {
        Some(folder) => measure::run(folder, &Host::of(&arguments.global), is_json),
        None => port(&arguments),
    };
    match done {
        Ok(exit) => exit.into(),
        Err(failure) => {
            fail(&failure, is_json);
            failure.exit.into()
        }
    }
}

fn fail(failure: &Failure, is_json: bool) {
    if failure.message.is_empty() {
        return;
    }
    if is_json {
        let error = serde_json::json!({ "message": failure.message, "exit": failure.exit.code() });
        output::message(&serde_json::json!({ "error": error }).to_string());
    } else {
        output::message(&format!("error: {}", failure.message));
    }
}

fn port(arguments: &Arguments) -> Result<Exit, Failure> {
    let path =
        arguments.file.as_deref().ok_or_else(|| Failure::usage("missing file: valvehouse port FILE.py"))?;
    let source = files::read_text(path, MAX_BYTES)?;
    let name = arguments.id.clone().unwrap_or_else(|| stem(path));
    if arguments.id.is_some() && !is_id(&name) {
        return Err(Failure::usage(format!(
            "invalid id `{name}`: expected 1 to 64 characters of a-z, 0-9, `_` and `-`"
        )));
    }
    let mut draft = valvehouse_port::port(&source, &name)
        .map_err(|error| Failure::data(format!("cannot port {}: {error}", path.display())))?;
    if arguments.id.is_some() {
        draft.id.clone_from(&name);
    }
    if arguments.stdout {
        output::piece(&draft.script)?;
        return Ok(Exit::Done);
    }
    finish(&draft, arguments)
}

/// Writes a draft and shows what is left to do.
fn finish(draft: &Draft, arguments: &Arguments) -> Result<Exit, Failure> {
    let Global { format, quiet, .. } = arguments.global;
    let host = Host::of(&arguments.global);
    let file = host.folder_of(draft.kind)?.join(format!("{}.rhai", draft.id));
    let checked = host.check(draft, &files::near(&file))?;
    let test = if arguments.dry_run { draft.test.clone() } else { host.test_of(draft)? };
    let drafts = [(file.clone(), &draft.script), (file.with_extension("test.rhai"), &test)];
    if !arguments.dry_run {
        files::write(&drafts, arguments.force)?;
    }
    let paths: Vec<PathBuf> = drafts.iter().map(|(path, _)| files::near(path)).collect();
    summary::print(draft, &paths, &checked, format == Format::Json)?;
    if checked.is_none() && !quiet && format == Format::Human {
        output::message("\nnot checked: `valvehouse` is neither beside this program nor on the path");
    }
    let has_errors = checked.iter().flatten().any(|problem| problem.is_error());
    Ok(if has_errors { Exit::Findings } else { Exit::Done })
}

/// The name of a file without its ending.
pub(super) fn stem(path: &Path) -> String {
    path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned())
}

fn is_id(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
    (1..=64).contains(&text.len()) && text.bytes().all(is_letter)
}
