//! The arguments of the command line.

use super::key::{Key, Usage};
#[cfg(feature = "workbench")]
use super::port::Port;
use super::runs::{Resume, Runs};
use super::tooling::Definitions;
#[cfg(feature = "workbench")]
use super::tooling::{Completions, Lsp};
use super::trace::Trace;
use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use valvehouse_json::Json;
use valvehouse_terminal::{CommandError, key_value};
#[cfg(feature = "workbench")]
use valvehouse_workbench::{
    dev::DevOptions, dry_run::DryRunOptions, fmt::FmtOptions, new::NewOptions, repl::ReplOptions,
    test::TestOptions,
};

/// A live, sandboxed plugin host for the traffic of large language models.
///
/// Save scripts in filters/; they run on every chat from the next request on.
#[derive(Debug, Parser)]
#[command(
    name = "valvehouse",
    version,
    arg_required_else_help = true,
    after_help = "Examples:
  valvehouse serve                            serve this folder on 127.0.0.1:9099
  valvehouse chat \"hello\"                     chat with the first model through all filters
  valvehouse check                            report mistakes in filters/
  valvehouse valves set turn_limit max_turns=8

Exit codes: 0 success, 1 findings, 2 usage, 65 bad script or data, 69 service unavailable,
70 internal error, 78 bad settings. Settings: --set overrides VALVEHOUSE__SECTION__KEY, which
overrides valvehouse.toml."
)]
pub(in crate::cli) struct Line {
    #[command(flatten)]
    pub(in crate::cli) global: Global,
    #[command(subcommand)]
    pub(in crate::cli) command: Command,
}

/// The options of every command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(in crate::cli) struct Global {
    /// Set the project folder, which contains valvehouse.toml and filters/
    #[arg(long, global = true, value_name = "DIR", default_value = ".")]
    pub(in crate::cli) project: PathBuf,
    /// Override a setting of valvehouse.toml, such as server.listen=127.0.0.1:8080
    #[arg(long, global = true, value_name = "KEY=VALUE", value_parser = key_value)]
    pub(in crate::cli) set: Vec<(String, String)>,
    /// Set the output format
    #[arg(long, global = true, value_name = "FORMAT", default_value = "human")]
    pub(in crate::cli) format: Format,
    /// Print results and errors only
    #[arg(long, short, global = true, conflicts_with = "verbose")]
    pub(in crate::cli) quiet: bool,
    /// Print more; repeat for debug output (VALVEHOUSE_LOG sets levels by target)
    #[arg(long, short, global = true, action = clap::ArgAction::Count)]
    pub(in crate::cli) verbose: u8,
}

/// `valvehouse list`
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  valvehouse list\n  valvehouse list --stats\n  valvehouse --format json list"
)]
pub(in crate::cli) struct List {
    /// Show the cost of each hook's and tool's calls on the running hosts
    #[arg(long)]
    pub(in crate::cli) stats: bool,
    /// List the tools instead: their arguments, tags and models
    #[arg(long, conflicts_with = "stats")]
    pub(in crate::cli) tools: bool,
}

/// The form of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Format {
    /// For reading.
    Human,
    /// For programs: one JSON value per line.
    Json,
    /// For code scanning services; only `check` supports it.
    Sarif,
}

impl From<Format> for valvehouse_terminal::Format {
    fn from(format: Format) -> Self {
        match format {
            Format::Human => Self::Human,
            Format::Json => Self::Json,
            Format::Sarif => Self::Sarif,
        }
    }
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// Serve the project to clients and reload changed files
    Serve(Serve),
    /// Serve with a live view for script authors: steps of every request, tests and replays on save
    #[cfg(feature = "workbench")]
    Dev(DevOptions),
    /// Chat with a model through the same filters, without a server
    Chat(Chat),
    /// List and manage the runs of models with a memory
    Runs(Runs),
    /// Resume a run that is waiting for approval, failed or was interrupted
    Resume(Resume),
    /// Show the steps of a running host's requests
    Trace(Trace),
    /// Call a tool through the filters, without a model
    Invoke(Invoke),
    /// Create a filter, tool, pipe, module or project
    #[cfg(feature = "workbench")]
    New(NewOptions),
    /// Draft a script from a Python filter, pipe or tool of Open WebUI
    #[cfg(feature = "workbench")]
    Port(Port),
    /// Run one hook of a script, or a whole turn, on a body and show its changes
    #[cfg(feature = "workbench")]
    Run(DryRunOptions),
    /// Evaluate expressions and functions of scripts line by line
    #[cfg(feature = "workbench")]
    Repl(ReplOptions),
    /// List plugins and their status
    List(List),
    /// Report mistakes in scripts without running them
    Check(Check),
    /// Run the tests of scripts
    #[cfg(feature = "workbench")]
    Test(TestOptions),
    /// Format scripts
    #[cfg(feature = "workbench")]
    Fmt(FmtOptions),
    /// Show and change the settings that scripts declare
    Valves(Valves),
    /// Show and change the access granted to plugins and native tools
    Grant(Grant),
    /// Show the effective settings and their sources
    Config(Config),
    /// Show the filters of a model, their order and the reasons why others do not run, or explain a problem code
    Explain(Explain),
    /// Check that a running host responds
    Health(Health),
    /// List the versions of a plugin, their authors and differences
    History(History),
    /// Restore a version of a plugin (file, valves and switches) or all scripts of a generation
    Rollback(Rollback),
    /// Check, test and upload a folder of scripts to the store, as one generation
    Apply(Apply),
    /// Write the scripts of the store into a folder
    Pull(Pull),
    /// Compare the scripts of the store with those of a folder
    Diff(Diff),
    /// Accept a change that weakens a guard, or its removal
    #[command(after_help = "Examples:
  valvehouse list                             pending changes, and how they would weaken the guard
  valvehouse confirm pii_guard")]
    Confirm(Confirm),
    /// Put a filter in audit mode, in which nothing of it applies, or end it
    #[command(after_help = "Examples:
  valvehouse audit redact on                  count and trace what it would do
  valvehouse audit redact off                 apply its verdicts and changes

Takes effect on all hosts of the store, and overrides the script and valvehouse.toml. A guard protects
nothing meanwhile.")]
    Audit(Audit),
    /// Assign the stored data of a removed plugin to the plugin with the same id
    #[command(after_help = "Examples:
  valvehouse adopt weather                    its valves, grants and kv entries
  valvehouse adopt weather --drop             delete them instead")]
    Adopt(Adopt),
    /// List the hosts on the store and the generation that each serves
    Nodes(Nodes),
    /// Create and update the tables of the store's database, for hosts that wait for it
    Migrate(Migrate),
    /// Release a quarantined version of a plugin
    Release(Release),
    /// Serve the project's tools to an MCP client over stdin and stdout, or manage other MCP servers
    #[cfg(feature = "mcp")]
    Mcp(Mcp),
    /// Maintain the store
    #[command(subcommand)]
    Store(Store),
    /// Show or delete the stored records of a user
    #[command(subcommand)]
    User(User),
    /// Show what clients used: requests, errors, tokens, cost and times
    Usage(Usage),
    /// Create, list and revoke keys for clients and operators
    Key(Key),
    /// Write the functions of scripts as definition files for editors, or as a page
    Definitions(Definitions),
    /// Run the language server for editors
    #[cfg(feature = "workbench")]
    Lsp(Lsp),
    /// Print the completion script for a shell
    #[cfg(feature = "workbench")]
    Completions(Completions),
    /// Print the manual page
    #[cfg(feature = "workbench")]
    #[command(hide = true)]
    Manual,
}

impl Command {
    /// Returns `true` if the command shows log lines and errors of scripts itself.
    pub(in crate::cli) fn is_shown(&self) -> bool {
        match self {
            #[cfg(feature = "workbench")]
            Self::Dev(_) | Self::Run(_) => true,
            _ => false,
        }
    }

    /// Returns `true` if scripts may fail on purpose in the command.
    pub(in crate::cli) fn is_tested(&self) -> bool {
        match self {
            #[cfg(feature = "workbench")]
            Self::Test(_) => true,
            _ => false,
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  valvehouse serve
  valvehouse serve --port 0                   any free port, printed on stderr
  valvehouse serve --listen 127.0.0.1:8080 --project ./gateway

Ctrl-C stops the host after running responses end, at most 30 s later; a second one stops it at
once. SIGHUP reloads valvehouse.toml and the folders.")]
pub(in crate::cli) struct Serve {
    /// Listen on this address instead of server.listen
    #[arg(long, value_name = "ADDRESS")]
    pub(in crate::cli) listen: Option<String>,
    /// Listen on this port; 0 selects a free one
    #[arg(long, value_name = "PORT")]
    pub(in crate::cli) port: Option<u16>,
    /// Treat warnings of scripts as errors, like folders.strict
    #[arg(long)]
    pub(in crate::cli) strict: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  valvehouse chat \"What is a valve?\"
  valvehouse chat --model assistant --user ann \"hello\"
  git diff | valvehouse chat                  read the text from stdin
  valvehouse chat                             chat line by line
  valvehouse chat --trace \"hello\"             show the steps of every filter
  yes | valvehouse chat \"tidy up\"            answer questions from stdin
  valvehouse chat --continue \"and then?\"     continue the newest conversation of a model with a memory
  valvehouse chat --continue=CHAT             continue this conversation

Questions of filters and tools are printed on stderr and answered with a line of stdin: a text, a
choice by text or number, a confirmation by y or n (an empty line is no). If stdin is at its end, or
the message was read from it, a question fails at once; the run of a model with a memory waits
(valvehouse resume).")]
pub(in crate::cli) struct Chat {
    /// Send this text [default: read stdin or prompt at the terminal]
    #[arg(value_name = "TEXT")]
    pub(in crate::cli) text: Vec<String>,
    /// Use this model [default: the first one]
    #[arg(long, short, value_name = "MODEL", value_parser = NonEmptyStringValueParser::new())]
    pub(in crate::cli) model: Option<String>,
    /// Set the id of the user
    #[arg(long, short, value_name = "USER", value_parser = NonEmptyStringValueParser::new())]
    pub(in crate::cli) user: Option<String>,
    /// Print the answer when it is complete
    #[arg(long)]
    pub(in crate::cli) no_stream: bool,
    /// Set a variable of the turn to a JSON value or a text; a variable that the configuration sets for the model takes
    /// precedence
    #[arg(long = "variable", value_name = "KEY=JSON", value_parser = value)]
    pub(in crate::cli) variables: Vec<(String, Json)>,
    /// Print the steps of filters, models and tools on stderr, with cost and changes
    #[arg(long)]
    pub(in crate::cli) trace: bool,
    /// Continue the newest conversation, or this one
    #[arg(long = "continue", value_name = "CHAT", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub(in crate::cli) goes_on: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  valvehouse invoke calculator expression=\"2 + 3 * 4\"
  valvehouse invoke weather --args '{\"city\": \"Tokyo\"}'
  echo '{\"city\": \"Tokyo\"}' | valvehouse invoke weather --args -
  valvehouse invoke todo_list --chat 42 --format json

Arguments are validated like a model's. Exit code 1: the tool or a filter rejected the call.")]
pub(in crate::cli) struct Invoke {
    /// Call this tool
    pub(in crate::cli) tool: String,
    /// Set single arguments
    #[arg(value_name = "KEY=VALUE", value_parser = key_value)]
    pub(in crate::cli) values: Vec<(String, String)>,
    /// Set all arguments with a JSON object; - reads it from stdin
    #[arg(long, value_name = "JSON")]
    pub(in crate::cli) args: Option<String>,
    /// Set the initial variables with a JSON object
    #[arg(long, value_name = "JSON")]
    pub(in crate::cli) context: Option<String>,
    /// Set the id of the user
    #[arg(long, short, value_name = "USER", value_parser = NonEmptyStringValueParser::new())]
    pub(in crate::cli) user: Option<String>,
    /// Set the id of the chat
    #[arg(long, value_name = "CHAT", value_parser = NonEmptyStringValueParser::new())]
    pub(in crate::cli) chat: Option<String>,
    /// Run the filters and the middleware of this model, with its variables [default: the filters of all models]
    #[arg(long, short, value_name = "MODEL", value_parser = NonEmptyStringValueParser::new())]
    pub(in crate::cli) model: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  valvehouse check                            everything in filters/
  valvehouse check filters/turn_limit.rhai
  valvehouse check turn_limit --strict        by id; warnings count too
  valvehouse check --format json | jq .problems
  valvehouse check --format sarif > check.sarif   for code scanning
  valvehouse explain V502                     explain a code in brackets")]
pub(in crate::cli) struct Check {
    /// Check these files, folders or ids of plugins [default: all]
    #[arg(value_name = "PATH")]
    pub(in crate::cli) paths: Vec<PathBuf>,
    /// Treat warnings as errors
    #[arg(long)]
    pub(in crate::cli) strict: bool,
    /// Load the files whose paths are read, one per line, and write an empty line for each
    #[arg(long, hide = true)]
    pub(in crate::cli) load: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  valvehouse valves                           the valves of all plugins
  valvehouse valves get turn_limit
  valvehouse valves set turn_limit max_turns=8
  valvehouse valves set turn_limit bonus_turns=2 --user ann
  valvehouse valves reset turn_limit max_turns")]
pub(in crate::cli) struct Valves {
    #[command(subcommand)]
    pub(in crate::cli) command: Option<ValvesDo>,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum ValvesDo {
    /// Show the effective values and their sources
    #[command(after_help = "Examples:
  valvehouse valves get                       the valves of all plugins
  valvehouse valves get turn_limit
  valvehouse valves get turn_limit max_turns  only the value
  valvehouse valves get turn_limit --user ann")]
    Get {
        /// The id of the plugin [default: list those of all plugins]
        id: Option<String>,
        /// Show only the value of this valve
        key: Option<String>,
        /// Use the valves of this user
        #[arg(long, short, value_name = "USER", value_parser = NonEmptyStringValueParser::new())]
        user: Option<String>,
    },
    /// Set values; other values stay unchanged
    #[command(after_help = "Examples:
  valvehouse valves set turn_limit max_turns=8
  valvehouse valves set turn_limit max_turns=null    back to the default
  valvehouse valves set redact words=alpha,beta
  valvehouse valves set turn_limit bonus_turns=2 --user ann")]
    Set {
        /// The id of the plugin
        id: String,
        /// Set these values; null restores the default
        #[arg(required = true, value_name = "KEY=VALUE", value_parser = key_value)]
        values: Vec<(String, String)>,
        /// Use the valves of this user
        #[arg(long, short, value_name = "USER", value_parser = NonEmptyStringValueParser::new())]
        user: Option<String>,
    },
    /// Reset values to those of valvehouse.toml and the script
    #[command(after_help = "Examples:
  valvehouse valves reset turn_limit max_turns
  valvehouse valves reset turn_limit          all of them")]
    Reset {
        /// The id of the plugin
        id: String,
        /// Reset these keys only [default: all]
        #[arg(value_name = "KEY")]
        keys: Vec<String>,
        /// Use the valves of this user
        #[arg(long, short, value_name = "USER", value_parser = NonEmptyStringValueParser::new())]
        user: Option<String>,
    },
    /// Print the JSON Schema of the values
    #[command(after_help = "Examples:
  valvehouse valves spec turn_limit
  valvehouse valves spec turn_limit --user-valves")]
    Spec {
        /// The id of the plugin
        id: String,
        /// Print the schema of user valves
        #[arg(long)]
        user_valves: bool,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  valvehouse grant                            list all grants and their sources
  valvehouse grant weather                    show its grants
  valvehouse grant weather http=api.example.com,*.example.org
  valvehouse grant file_read files=data,notes
  valvehouse grant shell_exec shell=git files=.
  valvehouse grant weather --revoke http=api.example.com
  valvehouse grant weather --revoke           all grants made by this command

Capabilities:
  http   hosts: http=NAME,… or http for all public ones; private ones only by name
  files  folders, relative to the project or absolute: files=FOLDER,…
  shell  programs: shell=NAME,… or shell for all of them
  env    environment variables: env=NAME,… or env for all of them
  kv     a durable key-value store of the plugin; its declaration grants it
  llm    models of this host; its declaration grants it

Grants are saved in the store and added to [grants.ID] of valvehouse.toml. Running hosts apply
them at once.")]
pub(in crate::cli) struct Grant {
    /// The id of the plugin, or a native tool such as file_read [default: list all grants]
    #[arg(required_if_eq("revoke", "true"))]
    pub(in crate::cli) id: Option<String>,
    /// Grant these capabilities; without any, show the current grants
    #[arg(value_name = "CAPABILITY")]
    pub(in crate::cli) capabilities: Vec<String>,
    /// Revoke these capabilities, or all if none is given
    #[arg(long)]
    pub(in crate::cli) revoke: bool,
}

#[cfg(feature = "mcp")]
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  valvehouse mcp                              serve a client over stdin and stdout
  claude mcp add house -- valvehouse mcp --project /path/to/project

  valvehouse mcp list                         list the servers of [[mcp]] and the status of their tools
  valvehouse mcp approve github               approve its current tools
  valvehouse mcp login github                 log in to a server with auth = \"oauth\"

valvehouse serve serves the same tools over HTTP at /mcp.")]
#[command(args_conflicts_with_subcommands = true)]
pub(in crate::cli) struct Mcp {
    /// Set the id of the client's user
    #[arg(long, short, value_name = "USER", value_parser = NonEmptyStringValueParser::new())]
    pub(in crate::cli) user: Option<String>,
    #[command(subcommand)]
    pub(in crate::cli) command: Option<McpCommand>,
}

#[cfg(feature = "mcp")]
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum McpCommand {
    /// List the servers of [[mcp]], their tools, and changes since their approval
    #[command(after_help = "Examples:
  valvehouse mcp list
  valvehouse mcp list github
  valvehouse --format json mcp list

Exit code 1: a server is unavailable, or a tool is waiting for approval.")]
    List {
        /// List this server only
        name: Option<String>,
    },
    /// Approve the current tools of a server; a changed tool needs a new approval
    #[command(after_help = "Examples:
  valvehouse mcp approve github               all of its tools
  valvehouse mcp approve github search read   these two
  valvehouse mcp approve github prompt:review   one of its prompts
  valvehouse mcp approve github --forget search   revoke an approval

Approvals are written to mcp.lock.json of the project. Running hosts apply them at once.")]
    Approve {
        /// The name of the server
        name: String,
        /// Approve these tools, by the server's own names [default: all]
        #[arg(value_name = "TOOL")]
        tools: Vec<String>,
        /// Revoke the approval
        #[arg(long)]
        forget: bool,
    },
    /// Log in to a server whose auth is "oauth", in a browser
    #[command(after_help = "Examples:
  valvehouse mcp login github
  valvehouse mcp login github --no-browser    only print the address

The tokens are encrypted in the store, where running hosts read and refresh them.")]
    Login {
        /// The name of the server
        name: String,
        /// Print the address instead of opening a browser
        #[arg(long)]
        no_browser: bool,
    },
    /// Delete the tokens of a login
    Logout {
        /// The name of the server
        name: String,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  valvehouse explain --model demo
  valvehouse explain --model demo --user ann  with the valves of this user
  valvehouse explain --coverage               guards that ran in the last hour, and requests without one
  valvehouse explain V502                     a problem code, with a wrong and a corrected example
  valvehouse explain --codes                  all problem codes
  valvehouse explain --service mistral        what this service demands, and how requests are adapted

valvehouse check prints the codes in brackets. Explaining a code needs no project.")]
pub(in crate::cli) struct Explain {
    /// Explain this problem code instead of the filters of a model
    #[arg(value_name = "CODE", conflicts_with_all = ["model", "user", "coverage", "codes"])]
    pub(in crate::cli) code: Option<String>,
    /// List all problem codes
    #[arg(long, conflicts_with_all = ["model", "user", "coverage"])]
    pub(in crate::cli) codes: bool,
    /// List what services of this kind demand of requests, and how requests are adapted
    #[arg(long, value_name = "NAME", conflicts_with_all = ["code", "codes", "model", "user", "coverage"])]
    pub(in crate::cli) service: Option<String>,
    /// Use this model [default: the first one]
    #[arg(long, short, value_name = "MODEL", value_parser = NonEmptyStringValueParser::new())]
    pub(in crate::cli) model: Option<String>,
    /// Set the id of the user
    #[arg(long, short, value_name = "USER", value_parser = NonEmptyStringValueParser::new())]
    pub(in crate::cli) user: Option<String>,
    /// List the guards that ran in the requests of the last hour, by endpoint, model, user and hook
    #[arg(long)]
    pub(in crate::cli) coverage: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  valvehouse config                           all settings; secrets are masked
  valvehouse config server
  valvehouse config server.listen --format json
  valvehouse config --reference               a reference of all settings, as Markdown
  valvehouse config --schema                  the same for editors, as JSON Schema")]
pub(in crate::cli) struct Config {
    /// Show this setting or section only
    #[arg(value_name = "KEY")]
    pub(in crate::cli) key: Option<String>,
    /// Print the reference of all settings
    #[arg(long, conflicts_with = "key")]
    pub(in crate::cli) reference: bool,
    /// Print the JSON Schema of valvehouse.toml
    #[cfg(feature = "workbench")]
    #[arg(long, conflicts_with_all = ["key", "reference"])]
    pub(in crate::cli) schema: bool,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Adopt {
    /// The id of the plugin
    pub(in crate::cli) id: String,
    /// Delete the stored data
    #[arg(long)]
    pub(in crate::cli) drop: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  valvehouse health                           the host of this project
  valvehouse health --ready --at http://127.0.0.1:9099

Exit codes: 0 the host responds, 69 it does not.")]
pub(in crate::cli) struct Health {
    /// Check that the host is ready for requests, not only that it is alive
    #[arg(long)]
    pub(in crate::cli) ready: bool,
    /// Connect to the host at this address [default: the host that runs on this project]
    #[arg(long, value_name = "URL")]
    pub(in crate::cli) at: Option<String>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Confirm {
    /// The id of the guard
    pub(in crate::cli) id: String,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Audit {
    /// The id of the filter
    pub(in crate::cli) id: String,
    /// Start or end the audit mode
    pub(in crate::cli) mode: OnOff,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum OnOff {
    On,
    Off,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  valvehouse release pii_guard

A version that crashed a host is quarantined. Saving a different text releases the plugin too. See
valvehouse explain V010.")]
pub(in crate::cli) struct Release {
    /// Release this plugin
    pub(in crate::cli) id: String,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  valvehouse nodes
  valvehouse nodes --format json

Lists hosts that reported within the last five seconds. A host that serves an earlier generation than
the store's is behind; if it stays behind, its log and /readyz?verbose give the reason.")]
pub(in crate::cli) struct Nodes {}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  valvehouse migrate
  valvehouse migrate --check                  list the missing steps

Connects to store.migrate_url if it is set, otherwise to store.url. All steps run in one transaction.
Hosts keep running meanwhile; those with [store] migrate = \"wait\" start when it is done. An SQLite
file is migrated when it is opened.
Exit code 1: --check found missing steps.")]
pub(in crate::cli) struct Migrate {
    /// List the missing steps and change nothing
    #[arg(long)]
    pub(in crate::cli) check: bool,
}

/// `valvehouse user`
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum User {
    /// Count the stored records of a user
    Show {
        /// The id of the user
        user: String,
    },
    /// Delete the stored records of a user
    #[command(after_help = "Examples:
  valvehouse user forget ann                  show what would be deleted
  valvehouse user forget ann --yes            delete it

Deletes memories, vectors, conversations with their runs, user valves, entries of kv::user and of these
conversations, stored responses and requests, and overwrites them in an SQLite store. If a host runs on this project, it
deletes them; otherwise, the command changes the store. Not deleted are entries that scripts store under their own
keys, traces in memory, logs, or data stored by providers.")]
    Forget {
        /// The id of the user
        user: String,
        /// Delete the records permanently
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Store {
    /// Write a backup of the store to a new file, also while hosts run
    #[command(after_help = "Examples:
  valvehouse store backup /backups/valvehouse-2026-11-30.db
  valvehouse store backup \"/backups/valvehouse-$(date +%F).db\" && rsync -a /backups/ backup-host:valvehouse/

The file has everything that was acknowledged before the command began, and its key is written beside
it with the extension .key, unless [store] key names the key. Keep both: without the key, stored
valves, logins, memories and vectors are unreadable. Back up a Postgres database with pg_dump.")]
    Backup {
        /// The file to create
        file: PathBuf,
    },
    /// Replace the store by a backup
    #[command(after_help = "Examples:
  valvehouse store restore /backups/valvehouse-2026-11-30.db

Stop the hosts first. The present store stays beside the restored one as
NAME-before-restore-TIME.db, with its key. The key of the backup is the file of the same name with the
extension .key, else [store] key or the key of the present store. A backup of an earlier version is
migrated when it is opened.")]
    Restore {
        /// The file that `store backup` wrote
        file: PathBuf,
    },
    /// Check the store: its file, references between rows, and that the key opens all encrypted values
    #[command(after_help = "Examples:
  valvehouse store check
  valvehouse store check --set store.url=sqlite:///backups/valvehouse-2026-11-30.db

Shows the number of rows of each table. Hosts may run meanwhile. The exit code is 1 if something is
wrong, and 69 if the store cannot be opened.")]
    Check,
    /// Delete the stored valves, logins, memories and vectors after their encryption key is lost
    #[command(after_help = "Examples:
  valvehouse store forget-valves

Stop the hosts first. Nothing is deleted while the key exists ([store] key, or the .key file next to
the store).")]
    ForgetValves,
    /// Copy all data into an empty store, such as from SQLite to Postgres
    #[command(after_help = "Examples:
  valvehouse store copy sqlite://.valvehouse/state.db env:DATABASE_URL
  valvehouse store copy env:DATABASE_URL sqlite://copy.db --from-key env:VALVEHOUSE_STORE_KEY

Stop the hosts first. Either all data is copied or none: valves, switches, grants, histories, kv,
conversations, runs, responses and logins. Encrypted data is decrypted with the key of FROM and
encrypted with that of TO. A key comes from its option, else from the .key file next to an SQLite
file, else from [store] key. Afterwards set store.url to TO.")]
    Copy {
        /// Copy from this store: a URL as in store.url, or env:NAME or file:PATH that contains one
        from: String,
        /// Copy to this store, which must be empty; missing tables are created
        to: String,
        /// Set the key of FROM: env:NAME, file:PATH or the key itself
        #[arg(long, value_name = "KEY")]
        from_key: Option<String>,
        /// Set the key of TO
        #[arg(long, value_name = "KEY")]
        to_key: Option<String>,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  valvehouse history turn_limit               all versions, newest first
  valvehouse history turn_limit 3             the changes of version 3
  valvehouse history turn_limit 3 --current   the changes that restoring version 3 would make
  valvehouse history turn_limit 3 --format json | jq -r .content

The store keeps the last 200 versions of each plugin, deleted ones included, whether changed in an
editor, by commands, over HTTP or on the admin page. Secrets are never shown.")]
pub(in crate::cli) struct History {
    /// The id of the plugin
    pub(in crate::cli) id: String,
    /// Show this version [default: list all]
    #[arg(value_name = "VERSION")]
    pub(in crate::cli) version: Option<u64>,
    /// Compare the version with the current one instead of the previous one
    #[arg(long, requires = "version")]
    pub(in crate::cli) current: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  valvehouse history turn_limit               list the versions
  valvehouse rollback turn_limit 3
  valvehouse rollback 38                      all scripts of generation 38, if scripts are in the store

Restores the file byte for byte, with the operators' valves and switches; user valves stay. A deleted
plugin is restored too. The replaced version stays in the history. A version that no longer loads is
rejected with the reason. The scripts of an earlier generation become a new generation; valves and
switches stay unchanged.")]
pub(in crate::cli) struct Rollback {
    /// Restore this plugin, or all scripts of this generation
    #[arg(value_name = "ID|GENERATION")]
    pub(in crate::cli) id: String,
    /// Restore this version of the plugin
    #[arg(value_name = "VERSION")]
    pub(in crate::cli) version: Option<u64>,
    /// Wait until all hosts serve the generation
    #[arg(long, conflicts_with = "version")]
    pub(in crate::cli) wait: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  valvehouse apply                            the folders of these settings
  valvehouse apply ./policies --wait          and wait until all hosts serve them
  valvehouse apply ./policies --manifest > set.json
  minisign -Sm set.json
  valvehouse apply ./policies --signature set.json.minisig --wait

DIR contains filters/, tools/ and actions/ with scripts, modules and tests. They are checked (valvehouse check)
and tested (valvehouse test), then uploaded in one transaction. Hosts with [folders] source =
\"store\" compile the generation next to the running set and switch to it as a whole or not at all.
Exit codes: 1 findings, nothing was uploaded; 69 with --wait, a host does not serve it.")]
pub(in crate::cli) struct Apply {
    /// Use this folder with filters/ and tools/ [default: the folders of the settings]
    #[arg(value_name = "DIR")]
    pub(in crate::cli) folder: Option<PathBuf>,
    /// Wait until all hosts serve it, and list those that do not
    #[arg(long)]
    pub(in crate::cli) wait: bool,
    /// Upload without running the tests
    #[cfg(feature = "workbench")]
    #[arg(long)]
    pub(in crate::cli) no_test: bool,
    /// Set the minimum host version that can run it [default: the version of this program]
    #[arg(long, value_name = "VERSION")]
    pub(in crate::cli) needs: Option<String>,
    /// Print the manifest, which is the text to sign, and upload nothing
    #[arg(long)]
    pub(in crate::cli) manifest: bool,
    /// Read the signature of the manifest from this file, as minisign writes it
    #[arg(long, value_name = "FILE", conflicts_with = "manifest")]
    pub(in crate::cli) signature: Option<PathBuf>,
    /// Load the files whose paths are read, one per line, and write an empty line for each
    #[arg(long, hide = true)]
    pub(in crate::cli) load: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  valvehouse pull                             into the folders of these settings
  valvehouse pull ./policies --generation 38
  valvehouse pull --force                     replace and remove different files

Without --force, nothing is written if a file would be replaced or removed.")]
pub(in crate::cli) struct Pull {
    /// Use this folder with filters/ and tools/ [default: the folders of the settings]
    #[arg(value_name = "DIR")]
    pub(in crate::cli) folder: Option<PathBuf>,
    /// Use this generation of the scripts [default: the latest]
    #[arg(long, value_name = "GENERATION")]
    pub(in crate::cli) generation: Option<u64>,
    /// Replace files that are different, and remove those that the generation does not have
    #[arg(long)]
    pub(in crate::cli) force: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  valvehouse diff
  valvehouse diff ./policies --generation 38

Exit codes: 0 no differences, 1 differences.")]
pub(in crate::cli) struct Diff {
    /// Use this folder with filters/ and tools/ [default: the folders of the settings]
    #[arg(value_name = "DIR")]
    pub(in crate::cli) folder: Option<PathBuf>,
    /// Use this generation of the scripts [default: the latest]
    #[arg(long, value_name = "GENERATION")]
    pub(in crate::cli) generation: Option<u64>,
}

/// Reads `KEY=JSON`; a value that is not valid JSON is a text.
fn value(text: &str) -> Result<(String, Json), CommandError> {
    let (key, value) = key_value(text)?;
    let value = Json::parse(value.as_bytes()).unwrap_or_else(|_| value.as_str().into());
    Ok((key, value))
}
