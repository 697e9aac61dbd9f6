//! The arguments of new scripts.

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use valvehouse_core::filter::Hook;
use valvehouse_script::Kind;
use valvehouse_workbench::new::{NewKind, NewOptions};

/// `valvehouse new`
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  valvehouse new filter house_style           filters/house_style.rhai, and a test beside it
  valvehouse new filter mask --hook stream    one that looks at answers while they are streamed
  valvehouse new tool temperature             tools/temperature.rhai, and a test beside it
  valvehouse new module words                 filters/lib/words.rhai, for scripts to import
  valvehouse new module words --in tools      the same for tools
  valvehouse new project gateway              a folder with settings, a filter and a tool
  valvehouse new --list                       the scripts that come with valvehouse
  valvehouse new filter mask --from redact    a copy of one of them, with its test

What is there already is left alone, unless --force replaces it.")]
pub(in crate::cli) struct New {
    /// Create this kind of file
    #[arg(value_name = "WHAT", required_unless_present = "list")]
    pub(in crate::cli) what: Option<What>,
    /// Its name: a-z, 0-9, _ and -; of a project its folder
    #[arg(value_name = "NAME")]
    pub(in crate::cli) name: Option<String>,
    /// The moment at which a filter acts
    #[arg(long, value_name = "HOOK", conflicts_with = "from", value_parser = PossibleValuesParser::new(Hook::ALL.map(Hook::name)))]
    pub(in crate::cli) hook: Option<String>,
    /// Copy this script of those that come along; without a name they are listed
    #[arg(long, value_name = "EXAMPLE", num_args = 0..=1, default_missing_value = "")]
    pub(in crate::cli) from: Option<String>,
    /// List the scripts that come along
    #[arg(long, conflicts_with_all = ["from", "hook", "name", "force"])]
    pub(in crate::cli) list: bool,
    /// Print the page about them, as Markdown
    #[arg(long, requires = "list")]
    pub(in crate::cli) markdown: bool,
    /// Put the module beside the scripts of this folder
    #[arg(long = "in", value_name = "FOLDER")]
    pub(in crate::cli) place: Option<Place>,
    /// Replace what is there
    #[arg(long)]
    pub(in crate::cli) force: bool,
}

/// The kind of new files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum What {
    /// A script that looks at requests and answers
    Filter,
    /// A script that models may call
    Tool,
    /// Functions that scripts import
    Module,
    /// A folder to begin with
    Project,
}

/// One of the two folders of a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Place {
    Filters,
    Tools,
}

impl From<New> for NewOptions {
    fn from(new: New) -> Self {
        let what = new.what.map(|what| match what {
            What::Filter => NewKind::Filter,
            What::Tool => NewKind::Tool,
            What::Module => NewKind::Module,
            What::Project => NewKind::Project,
        });
        let place = new.place.map(|place| match place {
            Place::Filters => Kind::Filter,
            Place::Tools => Kind::Tool,
        });
        let hook = new.hook.and_then(|name| Hook::ALL.into_iter().find(|hook| hook.name() == name));
        let New { name, from, list, markdown, force, .. } = new;
        Self { what, name, hook, from, list, markdown, place, force }
    }
}
