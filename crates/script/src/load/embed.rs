//! Scripts of a program that embeds the library without a host.

use super::loader::Loader;
use super::source::{Kind, SourceFile};
use crate::diagnostic::{Code, Diagnostic};
use crate::script::Script;
use crate::settings::Settings;
use crate::tool::ScriptedTool;
use std::path::PathBuf;
use std::sync::{Arc, Once};
use valvehouse_core::error::{Error, PluginError};
use valvehouse_core::filter::FilterEntry;
use valvehouse_core::kernel::TakesPlugins;
use valvehouse_core::text::did_you_mean;
use valvehouse_executor::STACK;
use valvehouse_grants::Grants;

/// The error of a script that does not load, with all its problems.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<String>())]
pub struct NotLoaded(pub Vec<Diagnostic>);

/// Converts to the error type of turns: a failure of the first script that does not load.
impl From<NotLoaded> for Error {
    fn from(error: NotLoaded) -> Self {
        let plugin = error.0.first().map_or("script", |problem| problem.id.as_str()).to_owned();
        Self::Broken(PluginError { plugin, hook: "load".into(), ..PluginError::of(error.into()) })
    }
}

/// Compiles the text of a filter with its default valves, no grants and the default budgets.
///
/// May be called on any thread: compiling needs a deep stack, so it runs on a temporary thread. Logs one warning
/// per process if `valvehouse_memory::CountingAllocator` is not the global allocator: the budgets of operations and
/// time apply without it, but not the memory budget.
///
/// ```
/// let filter = valvehouse_script::filter("shout", "fn inlet(body) { body.messages[-1].content.make_upper(); body
/// }")?;
/// assert_eq!(filter.name(), "shout");
/// # Ok::<(), valvehouse_script::NotLoaded>(())
/// ```
///
/// # Errors
/// Returns [`NotLoaded`] with the position of each problem and how to fix it.
pub fn filter(id: &str, text: &str) -> Result<FilterEntry, NotLoaded> {
    warn_without_allocator();
    let file = SourceFile::new(Kind::Filter, id, format!("{id}.rhai"), text);
    let compiled = on_a_deep_stack(|| Script::compile(&file, &Settings::default()));
    let script = compiled.map_err(NotLoaded)?;
    Ok(Arc::new(script).into_filter(Arc::default()))
}

/// A folder of scripts for a builder, and their grants.
///
/// A path converts to it: `builder.scripts("filters/")`.
#[derive(Debug, Clone)]
pub struct ScriptFolder {
    path: PathBuf,
    grants: Vec<(String, Grants)>,
}

impl ScriptFolder {
    /// Creates a folder whose scripts have no grants.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), grants: Vec::new() }
    }

    /// Adds grants to the script with this id.
    #[must_use]
    pub fn grant(mut self, id: &str, grants: Grants) -> Self {
        self.grants.push((id.to_owned(), grants));
        self
    }

    /// Compiles all scripts of the folder, in the order of their ids.
    fn load(&self, kind: Kind) -> Result<Vec<Arc<Script>>, NotLoaded> {
        warn_without_allocator();
        let problem = |message: String| Diagnostic::new(Code::Unreadable, "", &self.path, message);
        if !self.path.is_dir() {
            return Err(NotLoaded(vec![problem(
                "cannot find the folder of scripts; create it, or pass another path".into(),
            )]));
        }
        let found = on_a_deep_stack(|| Loader::default().look(kind, &self.path));
        let mut problems: Vec<Diagnostic> = found.problems.into_iter().chain(found.dangling).collect();
        problems.extend(found.unlisted.iter().map(|folder| {
            Diagnostic::new(Code::Unreadable, "", folder, "cannot list the folder; check its permissions")
        }));
        let unknown = self.grants.iter().filter(|(id, _)| !found.files.contains_key(id.as_str()));
        problems.extend(unknown.map(|(id, _)| {
            let near = did_you_mean(id, found.files.keys().map(|id| &**id));
            problem(format!("cannot grant anything to the unknown script `{id}`{near}"))
        }));
        let mut scripts = Vec::new();
        for (id, file) in &found.files {
            let own = self.grants.iter().filter(|(granted, _)| **granted == **id);
            let grants = own.fold(Grants::default(), |all, (_, own)| all.merge(own));
            let settings = Settings { grants, ..Settings::default() };
            match on_a_deep_stack(|| Script::compile(&file.file, &settings)) {
                Ok(script) => scripts.push(Arc::new(script)),
                Err(wrong) => problems.extend(wrong),
            }
        }
        if problems.is_empty() { Ok(scripts) } else { Err(NotLoaded(problems)) }
    }
}

impl<P: Into<PathBuf>> From<P> for ScriptFolder {
    fn from(path: P) -> Self {
        Self::new(path)
    }
}

/// Adds folders of scripts to the builder of a kernel or an agent. The scripts are compiled once; a host also reloads
/// them.
///
/// ```no_run
/// use valvehouse_core::Kernel;
/// use valvehouse_script::BuilderScripts;
/// let kernel = Kernel::builder().scripts("filters/")?.script_tools("tools/")?.build();
/// # Ok::<(), valvehouse_script::NotLoaded>(())
/// ```
pub trait BuilderScripts: TakesPlugins {
    /// Adds the filters of a folder, except those with `global: false`. An agent also calls their callbacks.
    ///
    /// # Errors
    /// Returns [`NotLoaded`] if the folder does not exist, or with the position of each problem if any script does
    /// not load.
    fn scripts(mut self, folder: impl Into<ScriptFolder>) -> Result<Self, NotLoaded> {
        for script in folder.into().load(Kind::Filter)?.into_iter().filter(|script| script.manifest.global) {
            if let Some(callbacks) = script.clone().into_callbacks(Arc::default()) {
                self = self.take_listener(Arc::new(callbacks));
            }
            self = self.take_filter(script.into_filter(Arc::default()));
        }
        Ok(self)
    }

    /// Adds the tools of a folder. The filters that a tool names must be added before.
    ///
    /// # Errors
    /// Returns [`NotLoaded`] if the folder does not exist, with the position of each problem if any script does not
    /// load, or if a tool names an unknown filter.
    fn script_tools(mut self, folder: impl Into<ScriptFolder>) -> Result<Self, NotLoaded> {
        for script in folder.into().load(Kind::Tool)? {
            for ScriptedTool { mut tool, filters } in script.tools(&Arc::default()) {
                for id in &filters {
                    let filter = self.filter_named(id).ok_or_else(|| {
                        let message = format!(
                            "cannot load the tool `{}`: unknown filter `{id}`; add the filter to the builder first",
                            tool.name()
                        );
                        NotLoaded(vec![Diagnostic::of(Code::Unreadable, &script.file, message)])
                    })?;
                    tool.filters.push(filter);
                }
                self = self.take_tool(tool);
            }
        }
        Ok(self)
    }
}

impl<B: TakesPlugins> BuilderScripts for B {}

/// Runs work on a temporary thread with a deep stack.
fn on_a_deep_stack<T: Send>(work: impl Fn() -> T + Sync) -> T {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, &work);
        // If no thread can be created, the work runs on the caller's stack.
        thread.map_or_else(
            |_| work(),
            |thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        )
    })
}

fn warn_without_allocator() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if !valvehouse_memory::is_installed() {
            tracing::warn!(
                "cannot limit the memory of scripts: missing counting allocator; install \
                 `valvehouse_memory::CountingAllocator` as the global allocator"
            );
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_that_does_not_load_names_the_place() {
        let error = filter("broken", "fn inlet(body) { body").err().unwrap().to_string();
        assert!(error.contains("broken.rhai:1"), "{error}");
    }

    #[test]
    fn a_builder_takes_folders_of_scripts() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("shout.rhai", "fn inlet(body) { body.messages[-1].content.make_upper(); body }");
        write("own.rhai", "/*\nglobal: false\n*/\nfn inlet(body) { throw \"never\"; }");
        let kernel = valvehouse_core::Kernel::builder().scripts(folder.path()).unwrap().build();
        let names: Vec<_> = kernel.chain().filters().iter().map(FilterEntry::name).collect();
        assert_eq!(names, ["shout"]);
        write("broken.rhai", "fn inlet(body) { body");
        write("other.rhai", "fn inlet(body) { body.x( }");
        let wrong = |folder: ScriptFolder| {
            valvehouse_core::Kernel::builder().scripts(folder).err().unwrap().to_string()
        };
        let all = wrong(folder.path().into());
        assert!(all.contains("broken.rhai:1") && all.contains("other.rhai:1"), "{all}");
        let missing = wrong("no/such/folder".into());
        assert!(missing.contains("cannot find the folder of scripts"), "{missing}");
        let granted = wrong(ScriptFolder::new(folder.path()).grant("shuot", Grants::default()));
        assert!(granted.contains("unknown script `shuot`; did you mean `shout`?"), "{granted}");
    }

    #[test]
    fn a_tool_of_a_folder_needs_the_filters_that_it_names() {
        let folder = tempfile::tempdir().unwrap();
        let text = "const tool = #{ filters: [\"audit\"] };\nfn handler(args) { 42 }";
        std::fs::write(folder.path().join("answer.rhai"), text).unwrap();
        let builder = valvehouse_core::Kernel::builder;
        let error = builder().script_tools(folder.path()).err().unwrap().to_string();
        assert!(error.contains("cannot load the tool `answer`: unknown filter `audit`"), "{error}");
        let audit = filter("audit", "fn pre_invocation(ctx) { }").unwrap();
        let kernel = builder().filter(audit).script_tools(folder.path()).unwrap().build();
        assert_eq!(kernel.find_tool("answer").unwrap().filters.len(), 1);
    }

    #[test]
    fn a_nested_script_loads_on_a_thread_with_a_small_stack() {
        let text =
            format!("fn inlet(body) {{ {}body.x = 1;{} body }}", "if true { ".repeat(8), " }".repeat(8));
        let load = move || filter("nested", &text).map(drop).map_err(|error| error.to_string());
        let small = std::thread::Builder::new().stack_size(256 << 10).spawn(load);
        assert_eq!(small.unwrap().join().unwrap(), Ok(()));
    }
}
