//! `valvehouse check`: checks scripts and settings. Nothing is stored, and only the functions of scripts that
//! list tools are run.

use super::load_process::{self, Loads};
use super::{args, sarif, settings};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use valvehouse_authoring::testing::Suite;
use valvehouse_config::{Config, FILE, Grants, Origin, UnreadSecret};
use valvehouse_core::text::{count, did_you_mean};
use valvehouse_dialect::crash::Quarantine;
use valvehouse_host::{app, chats_only, chats_only_in_words};
use valvehouse_json::Json;
use valvehouse_script::{
    Code, Diagnostic, FolderScan, Kind, LoadedFile, Loader, Script, Severity, is_module, read_file,
    script_of_tests,
};
use valvehouse_terminal::{Case, CommandError, Console, Exit, ScriptPlace, case, report};

pub(super) async fn run(args: &args::Check, config: &Config, out: &Console) -> Result<Exit, CommandError> {
    if args.load {
        return load(config).await;
    }
    check(args, config, out, false).await
}

/// Loads the files whose paths are read from stdin.
pub(super) async fn load(config: &Config) -> Result<Exit, CommandError> {
    load_process::run(config, &app::stored_grants(config).await)
}

/// Checks scripts before an upload. A change that an operator may confirm later is reported, but does not
/// fail the check.
pub(super) async fn before_apply(config: &Config, out: &Console) -> Result<Exit, CommandError> {
    let all = args::Check { paths: Vec::new(), strict: false, load: false };
    check(&all, config, out, true).await
}

async fn check(
    args: &args::Check,
    config: &Config,
    out: &Console,
    may_be_confirmed: bool,
) -> Result<Exit, CommandError> {
    app::check(config)?;
    let granted = app::stored_grants(config).await;
    let mut findings = Findings { granted, ..Findings::default() };
    if args.paths.is_empty() {
        for (kind, folder) in app::folders_of(config) {
            findings.folder(kind, folder, config);
        }
    }
    for path in &args.paths {
        findings.add_path(path, config)?;
    }
    findings.same_tools();
    if args.paths.is_empty() {
        findings.secrets(config);
    }
    findings.host(config, &args.paths).await?;
    findings.print(out)?;
    let waits = |problem: &Diagnostic| matches!(problem.code, Code::GuardWeakened | Code::GuardGone);
    let counts = |problem: &Diagnostic| {
        (args.strict || problem.severity == Severity::Error) && !(may_be_confirmed && waits(problem))
    };
    Ok(if findings.problems.iter().any(counts) { Exit::Findings } else { Exit::Done })
}

/// Returns the folders of scripts that a folder refers to: itself, or those within it, as uploaded by `apply
/// FOLDER`.
fn script_folders(folder: &Path, config: &Config) -> Vec<(Kind, PathBuf)> {
    let is = |other: &Path| folder.canonicalize().ok() == other.canonicalize().ok();
    let kinds = [Kind::Tool, Kind::Action, Kind::Filter];
    if let Some(kind) = kinds.into_iter().find(|kind| is(app::folder_of(config, *kind))) {
        return vec![(kind, folder.to_owned())];
    }
    let within = Kind::ALL.map(|kind| (kind, folder.join(kind.folder())));
    let within: Vec<_> = within.into_iter().filter(|(_, folder)| folder.is_dir()).collect();
    if within.is_empty() {
        let is_named = |kind: &Kind| folder.file_name().is_some_and(|name| name == kind.folder());
        let kind = Kind::ALL.into_iter().find(is_named).unwrap_or(Kind::Filter);
        return vec![(kind, folder.to_owned())];
    }
    within
}

/// The problems found, and the checked files.
#[derive(Default)]
struct Findings {
    files: BTreeSet<PathBuf>,
    problems: Vec<Diagnostic>,
    /// Notes, which are not problems.
    notes: Vec<String>,
    /// The places and messages of the reported problems.
    reported: HashSet<(String, String)>,
    /// The grants made by command.
    granted: HashMap<String, Grants>,
    /// The plugins that define each tool, with their ids and paths.
    tools: BTreeMap<String, Vec<(String, PathBuf)>>,
    loads: Loads,
}

impl Findings {
    /// Checks a file, a folder, or the plugin with an id.
    fn add_path(&mut self, word: &Path, config: &Config) -> Result<(), CommandError> {
        let in_project = config.project.join(word);
        match [word, &in_project].into_iter().find(|path| path.exists()) {
            Some(folder) if folder.is_dir() => {
                for (kind, folder) in script_folders(folder, config) {
                    self.folder(kind, &folder, config);
                }
            }
            Some(file) if file.extension().is_some_and(|extension| extension == "rhai") => {
                self.file(file, config);
            }
            Some(file) => {
                let file = file.display();
                return Err(CommandError::data(format!(
                    "{file} is not a script: expected a name that ends in .rhai"
                )));
            }
            None => self.id(&word.to_string_lossy(), config)?,
        }
        Ok(())
    }

    /// Checks a file by its path: a plugin, a module, or a test file.
    fn file(&mut self, file: &Path, config: &Config) {
        let ScriptPlace { kind, root, path: file } = ScriptPlace::of(config, file);
        if script_of_tests(&file).is_some() {
            return self.tests(kind, &root, &file, config);
        }
        match is_module(&root, &file) {
            true => self.module(kind, &root, &file),
            false => self.read(read_file(kind, &root, &file), &file, config),
        }
    }

    /// Checks a test file, and whether its script can be tested.
    fn tests(&mut self, kind: Kind, root: &Path, path: &Path, config: &Config) {
        self.files.insert(path.to_owned());
        let problems = match case(kind, root, path) {
            Err(problem) => vec![problem],
            Ok(Case { script, tests }) => {
                let settings = app::settings_of(config, &self.granted, kind, &script.id);
                Suite::check(&script, &tests, &settings)
            }
        };
        self.add_once(problems);
    }

    fn module(&mut self, kind: Kind, root: &Path, path: &Path) {
        self.files.insert(path.to_owned());
        let problems = match read_file(kind, root, path) {
            Ok(read) => Script::check_module(&read.file, root),
            Err(problem) => vec![problem],
        };
        self.add_once(problems);
    }

    /// Adds problems that are not reported yet: those of a module concern every script that imports it.
    fn add_once(&mut self, problems: Vec<Diagnostic>) {
        for problem in problems {
            if self.reported.insert((problem.place(), problem.message.clone())) {
                self.problems.push(problem);
            }
        }
    }

    fn id(&mut self, id: &str, config: &Config) -> Result<(), CommandError> {
        let looks = app::folders_of(config).map(|(kind, folder)| Loader::default().look(kind, folder));
        let mut found = looks.into_iter().fold(FolderScan::default(), FolderScan::and);
        if !found.knows(id) {
            let hint = did_you_mean(id, found.files.keys().map(|id| &**id));
            return Err(CommandError::data(format!("unknown file, folder or plugin `{id}`{hint}")));
        }
        found.files.retain(|other, _| **other == *id);
        found.problems.retain(|problem| problem.id == id);
        self.found(found, config);
        Ok(())
    }

    fn folder(&mut self, kind: Kind, folder: &Path, config: &Config) {
        let found = Loader::default().look(kind, folder);
        let (modules, tests) = (found.modules.clone(), found.tests.clone());
        self.found(found, config);
        for module in modules {
            self.module(kind, folder, &module);
        }
        for tests in tests {
            self.tests(kind, folder, &tests, config);
        }
    }

    fn found(&mut self, found: FolderScan, config: &Config) {
        for problem in found.problems {
            if problem.path.is_file() {
                self.files.insert(problem.path.clone());
            }
            self.reported.insert((problem.place(), problem.message.clone()));
            self.problems.push(problem);
        }
        for read in found.files.into_values() {
            let path = read.file.path.clone();
            self.read(Ok(Arc::unwrap_or_clone(read)), &path, config);
        }
    }

    fn read(&mut self, read: Result<LoadedFile, Diagnostic>, path: &Path, config: &Config) {
        self.files.insert(path.to_owned());
        let problems = match read {
            Err(problem) => vec![problem],
            Ok(LoadedFile { file, .. }) => {
                let quarantined = Quarantine::of(&config.project).of_plugin(&file.id);
                let ends = Diagnostic::of_quarantine(&file, &quarantined);
                match ends.or_else(|| self.loads.problem_of(&file)) {
                    // Code that ended a host would end this process too.
                    Some(problem) => vec![problem],
                    None => {
                        let settings = app::settings_of(config, &self.granted, file.kind, &file.id);
                        if file.kind == Kind::Tool
                            && let Ok(script) = Script::compile(&file, &settings)
                        {
                            for name in script.tool_names() {
                                let brought = (file.id.to_string(), file.path.clone());
                                self.tools.entry(name.to_owned()).or_default().push(brought);
                            }
                        }
                        if file.kind == Kind::Filter
                            && config.is_pipelines_server()
                            && file.text.contains("security")
                            && let Ok(script) = Script::compile(&file, &settings)
                            && script.manifest.security
                        {
                            let hooks = chats_only(&script);
                            if !hooks.is_empty() {
                                self.notes.push(chats_only_in_words(&file.id, &hooks));
                            }
                        }
                        Script::check(&file, &settings)
                    }
                }
            }
        };
        self.add_once(problems);
    }

    /// Reports tools with one name that several files define: only the last one is offered.
    fn same_tools(&mut self) {
        let mut problems = Vec::new();
        for (name, brought) in std::mem::take(&mut self.tools) {
            let paths: BTreeSet<&PathBuf> = brought.iter().map(|(_, path)| path).collect();
            let Some(used) = paths.iter().next_back().filter(|_| paths.len() > 1) else { continue };
            for (id, path) in &brought {
                let is_used = path == *used;
                let what = if is_used { "this file is used" } else { "this file is not used" };
                let message = format!("two tools are called `{name}`: {what}");
                let others: Vec<String> = paths
                    .iter()
                    .filter(|other| **other != path)
                    .map(|other| other.display().to_string())
                    .collect();
                let help = format!("rename this file or that of {}", others.join(" and "));
                problems.push(Diagnostic::new(Code::SameTool, id, path, message).help(help).warning());
            }
        }
        self.add_once(problems);
    }

    /// Reports configured secrets that cannot be read.
    fn secrets(&mut self, config: &Config) {
        let path = config.project.join(FILE);
        let text = settings::read(&path).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let problem = |UnreadSecret { key, why }| {
            let message = format!("cannot read {key}: {why}");
            let mut problem = Diagnostic::new(Code::SecretUnread, "", &path, message).warning();
            if let Origin::File { line, column, .. } = config.origin(&key) {
                (problem.line, problem.column) = (Some(line), Some(column));
                problem.excerpt = settings::line(&text, line);
            }
            problem
        };
        self.add_once(config.unread_secrets().into_iter().map(problem).collect());
    }

    /// Adds the problems that `list` and `serve` also report: missing tools and filters, settings for unknown
    /// plugins, and guards that are missing or wait for an operator.
    async fn host(&mut self, config: &Config, paths: &[PathBuf]) -> Result<(), CommandError> {
        let snapshot = app::glance(config, std::mem::take(&mut self.loads.ended)).await?;
        let is_selected = |problem: &Diagnostic| {
            let is_it = |path: &PathBuf| {
                let word = path.to_string_lossy();
                problem.id == *word
                    || problem.path.ends_with(path)
                    || problem.path.starts_with(config.project.join(path))
            };
            paths.is_empty() || paths.iter().any(is_it)
        };
        let of_plugins = snapshot.plugins.values().flat_map(|plugin| plugin.standing_problems());
        let standing = app::stored_standing(config).await;
        let of_schedule = standing.scheduled_problems(&snapshot);
        let all = snapshot.problems.iter().cloned().chain(of_plugins).chain(of_schedule);
        self.add_once(all.filter(is_selected).collect());
        Ok(())
    }

    fn print(&mut self, out: &Console) -> Result<(), CommandError> {
        self.problems.sort_by(|a, b| (&a.path, a.line, a.column).cmp(&(&b.path, b.line, b.column)));
        if out.is_sarif() {
            out.json(&sarif::report(&self.problems))?;
            return Ok(());
        }
        if out.is_json() {
            let errors = self.problems.iter().filter(|problem| problem.severity == Severity::Error).count();
            out.json(&Json::from([
                ("checked", self.files.len().into()),
                ("errors", errors.into()),
                ("warnings", (self.problems.len() - errors).into()),
                ("problems", report::all_as_json(&self.problems)),
                ("notes", self.notes.iter().map(|note| Json::from(note.as_str())).collect::<Vec<_>>().into()),
            ]))?;
            return Ok(());
        }
        for note in &self.notes {
            out.note(&format!("note: {note}"));
        }
        for problem in &self.problems {
            out.line(&format!("{}\n", report::shown(problem, out.results())))?;
        }
        let (files, problems) = (count(self.files.len(), "file"), count(self.problems.len(), "problem"));
        out.line(&format!("checked {files}, {problems}"))?;
        Ok(())
    }
}
