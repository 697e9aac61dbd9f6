//! The command: selects the files to format.

use clap::Args;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use valvehouse_authoring::format::format;
use valvehouse_config::Config;
use valvehouse_core::text::count;
use valvehouse_json::Json;
use valvehouse_terminal::{CommandError, Console, Exit, files, report};

/// The maximum size of a formatted text, in bytes.
const MAX_BYTES: usize = 1 << 20;
/// The maximum depth of folders that are searched.
const MAX_DEPTH: usize = 32;

/// The options of `valvehouse fmt`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  valvehouse fmt                              format all scripts of filters/, tools/ and actions/
  valvehouse fmt filters/turn_limit.rhai      one file; folders work too
  valvehouse fmt --check                      change nothing; list the files that are not formatted
  valvehouse fmt - < draft.rhai               format stdin, for editors

Sets indentation, spaces between tokens and blank lines. Lines are neither joined nor split; comments
and texts keep their bytes. A formatted file is not changed by a second run.

Exit codes: 1 --check found a file that is not formatted, 65 a bracket, text or comment is not closed.")]
pub struct FmtOptions {
    /// Format these files and folders; - for stdin [default: filters/, tools/ and actions/]
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// List the files that are not formatted and change nothing
    #[arg(long)]
    pub check: bool,
}

/// Formats scripts, or lists those that are not formatted.
///
/// # Errors
///
/// Returns an error if a path does not exist, or a file cannot be read or written.
pub fn run(options: &FmtOptions, config: &Config, out: &Console) -> Result<Exit, CommandError> {
    if options.paths.iter().any(|path| path == Path::new("-")) {
        return stdin(options, out);
    }
    let scripts = scripts(&options.paths, config)?;
    let (mut changed, mut refused) = (Vec::new(), Vec::new());
    for path in &scripts {
        let text = files::read_text(path, MAX_BYTES)?;
        match format(&text) {
            Ok(formatted) if formatted == text => {}
            Ok(formatted) => {
                let line = first_difference(&text, &formatted);
                if !options.check {
                    files::write_text(path, &formatted)?;
                }
                changed.push((near(path), line));
            }
            Err(error) => refused.push(format!("cannot format {}:{error}; close it first", near(path))),
        }
    }
    show(options, (&changed, &refused), scripts.len(), out)?;
    Ok(match () {
        () if !refused.is_empty() => Exit::Data,
        () if options.check && !changed.is_empty() => Exit::Findings,
        () => Exit::Done,
    })
}

fn show(
    options: &FmtOptions,
    (changed, refused): (&[(String, usize)], &[String]),
    files: usize,
    out: &Console,
) -> Result<(), CommandError> {
    if out.is_json() {
        let list = |texts: Vec<&str>| Json::from(texts.into_iter().map(Json::from).collect::<Vec<_>>());
        out.json(&Json::from([
            ("changed", list(changed.iter().map(|(path, _)| path.as_str()).collect())),
            ("refused", list(refused.iter().map(String::as_str).collect())),
            ("files", files.into()),
        ]))?;
        return Ok(());
    }
    for (path, line) in changed {
        match options.check {
            true => out.line(&format!("{path}:{line}: not formatted"))?,
            false => out.line(&format!("{path}: formatted"))?,
        }
    }
    for refused in refused {
        out.note(refused);
    }
    match options.check {
        true if changed.is_empty() => out.note(&format!("{} formatted", count(files, "file"))),
        true => out.note(&format!(
            "{} of {files} not formatted; format them: valvehouse fmt",
            count(changed.len(), "file")
        )),
        false => out.note(&format!("{} of {files} changed", count(changed.len(), "file"))),
    }
    Ok(())
}

/// Formats stdin to stdout, for editors without a language server.
fn stdin(options: &FmtOptions, out: &Console) -> Result<Exit, CommandError> {
    if options.paths.len() > 1 {
        return Err(CommandError::usage("`-` cannot be combined with other paths: it formats stdin"));
    }
    let text = files::read_stdin(MAX_BYTES)?;
    let formatted = format(&text)
        .map_err(|error| CommandError::data(format!("cannot format stdin:{error}; close it first")))?;
    if options.check {
        let is_formatted = formatted == text;
        if !is_formatted {
            out.line(&format!("-:{}: not formatted\n", first_difference(&text, &formatted)))?;
        }
        return Ok(if is_formatted { Exit::Done } else { Exit::Findings });
    }
    out.piece(&formatted)?;
    Ok(Exit::Done)
}

/// Returns the scripts at these paths, sorted; all scripts of the project if there are none.
fn scripts(paths: &[PathBuf], config: &Config) -> Result<BTreeSet<PathBuf>, CommandError> {
    let mut found = BTreeSet::new();
    if paths.is_empty() {
        for folder in [&config.folders.filters, &config.folders.tools, &config.folders.actions] {
            within(folder, 0, &mut found)?;
        }
    }
    for path in paths {
        let in_project = config.project.join(path);
        match [path, &in_project].into_iter().find(|path| path.exists()) {
            Some(folder) if folder.is_dir() => within(folder, 0, &mut found)?,
            Some(file) if is_script(file) => _ = found.insert(file.clone()),
            Some(file) => {
                let file = near(file);
                return Err(CommandError::usage(format!(
                    "{file} is not a script: expected a name that ends in .rhai"
                )));
            }
            None => {
                return Err(CommandError::usage(format!("unknown file or folder `{}`", path.display())));
            }
        }
    }
    Ok(found)
}

fn within(folder: &Path, depth: usize, found: &mut BTreeSet<PathBuf>) -> Result<(), CommandError> {
    if !folder.is_dir() || depth > MAX_DEPTH {
        return Ok(());
    }
    let cannot = |error| CommandError::data(format!("cannot read {}: {error}", near(folder)));
    for entry in std::fs::read_dir(folder).map_err(cannot)? {
        let entry = entry.map_err(cannot)?;
        let (path, kind) = (entry.path(), entry.file_type().map_err(cannot)?);
        let is_hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        // Links are not followed: their targets are formatted where they are.
        match kind {
            _ if is_hidden => {}
            kind if kind.is_dir() => within(&path, depth + 1, found)?,
            kind if kind.is_file() && is_script(&path) => _ = found.insert(path),
            _ => {}
        }
    }
    Ok(())
}

fn is_script(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "rhai")
}

fn near(path: &Path) -> String {
    report::near(path).display().to_string()
}

/// Returns the number of the first line that differs.
fn first_difference(text: &str, formatted: &str) -> usize {
    let same = text.split('\n').zip(formatted.split('\n')).take_while(|(a, b)| a == b);
    same.count() + 1
}
