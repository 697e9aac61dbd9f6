//! The arguments of `valvehouse new`.

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use valvehouse_core::filter::Hook;
use valvehouse_script::Kind;
use valvehouse_workbench::new::{NewKind, NewOptions};

/// `valvehouse new`
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  valvehouse new filter house_style           filters/house_style.rhai and its test
  valvehouse new filter mask --hook stream    a filter for streamed answers
  valvehouse new tool temperature             tools/temperature.rhai and its test
  valvehouse new action word_count            actions/word_count.rhai and its test
  valvehouse new pipe council                 filters/council.rhai, a model, and its test
  valvehouse new module words                 filters/lib/words.rhai, for scripts to import
  valvehouse new module words --in tools      the same for tools
  valvehouse new project gateway              a folder with settings, a filter and a tool
  valvehouse new --list                       list the shipped scripts
  valvehouse new filter mask --from redact    a copy of a shipped script and its test

Existing files are not changed; --force replaces them.")]
pub(in crate::cli) struct New {
    /// Create this kind of file
    #[arg(value_name = "WHAT", required_unless_present = "list")]
    pub(in crate::cli) what: Option<What>,
    /// Set its name (a-z, 0-9, _ and -), or the folder of a project
    #[arg(value_name = "NAME")]
    pub(in crate::cli) name: Option<String>,
    /// Create a filter with this hook
    #[arg(long, value_name = "HOOK", conflicts_with = "from", value_parser = PossibleValuesParser::new(Hook::ALL.map(Hook::name)))]
    pub(in crate::cli) hook: Option<String>,
    /// Copy this shipped script; without a name, list them
    #[arg(long, value_name = "EXAMPLE", num_args = 0..=1, default_missing_value = "")]
    pub(in crate::cli) from: Option<String>,
    /// List the shipped scripts
    #[arg(long, conflicts_with_all = ["from", "hook", "name", "force"])]
    pub(in crate::cli) list: bool,
    /// Print the list as a Markdown page
    #[arg(long, requires = "list")]
    pub(in crate::cli) markdown: bool,
    /// Create the module for the scripts of this folder
    #[arg(long = "in", value_name = "FOLDER")]
    pub(in crate::cli) place: Option<Place>,
    /// Replace existing files
    #[arg(long)]
    pub(in crate::cli) force: bool,
}

/// The kind of new files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum What {
    /// A script that reads and changes requests and answers
    Filter,
    /// A script that models can call
    Tool,
    /// A script behind a button under messages
    Action,
    /// A script that clients can choose as a model
    Pipe,
    /// Functions that scripts import
    Module,
    /// A folder with settings, a filter and a tool
    Project,
}

/// One of the folders of a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Place {
    Filters,
    Tools,
    Actions,
}

impl From<New> for NewOptions {
    fn from(new: New) -> Self {
        let what = new.what.map(|what| match what {
            What::Filter => NewKind::Filter,
            What::Tool => NewKind::Tool,
            What::Action => NewKind::Action,
            What::Pipe => NewKind::Pipe,
            What::Module => NewKind::Module,
            What::Project => NewKind::Project,
        });
        let place = new.place.map(|place| match place {
            Place::Filters => Kind::Filter,
            Place::Tools => Kind::Tool,
            Place::Actions => Kind::Action,
        });
        let hook = new.hook.and_then(|name| Hook::ALL.into_iter().find(|hook| hook.name() == name));
        let New { name, from, list, markdown, force, .. } = new;
        Self { what, name, hook, from, list, markdown, place, force }
    }
}
