//! The arguments of the command line.

#[cfg(feature = "workbench")]
use super::dev::Dev;
#[cfg(feature = "workbench")]
use super::new::New;
use super::pair::pair;
use super::runs::{Resume, Runs};
#[cfg(feature = "workbench")]
use super::tooling::{Completions, Lsp, Repl, Test};
use super::tooling::{Definitions, ExplainCode};
use super::trace::Trace;
#[cfg(feature = "workbench")]
use super::trial::Run;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// A live, sandboxed plugin host for the traffic of large language models.
///
/// Drop scripts into filters/; they run on every chat from the moment they are saved.
#[derive(Debug, Parser)]
#[command(
    name = "valvehouse",
    version,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "Examples:
  valvehouse serve                            serve this folder on 127.0.0.1:9099
  valvehouse chat \"hello\"                     ask the first model, with all filters
  valvehouse check                            look for mistakes in filters/
  valvehouse valves set turn_limit max_turns=8

Exit codes: 0 done, 1 findings, 2 usage, 65 bad script or data, 69 service unavailable,
70 internal, 78 settings. Settings: --set over VALVEHOUSE__SECTION__KEY over valvehouse.toml."
)]
pub(in crate::cli) struct Line {
    #[command(flatten)]
    pub(in crate::cli) global: Global,
    #[command(subcommand)]
    pub(in crate::cli) command: Command,
}

/// The options of every command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Everywhere")]
pub(in crate::cli) struct Global {
    /// The project's folder, the one with valvehouse.toml and filters/
    #[arg(long, global = true, value_name = "DIR", default_value = ".")]
    pub(in crate::cli) project: PathBuf,
    /// A setting in place of the one in valvehouse.toml, such as server.listen=127.0.0.1:8080
    #[arg(long, global = true, value_name = "KEY=VALUE", value_parser = pair)]
    pub(in crate::cli) set: Vec<(String, String)>,
    /// Write results in this format
    #[arg(long, global = true, value_name = "FORMAT", default_value = "human")]
    pub(in crate::cli) format: Format,
    /// Results and errors only
    #[arg(long, short, global = true, conflicts_with = "verbose")]
    pub(in crate::cli) quiet: bool,
    /// Say more; twice, say everything (VALVEHOUSE_LOG says exactly what)
    #[arg(long, short, global = true, action = clap::ArgAction::Count)]
    pub(in crate::cli) verbose: u8,
}

/// `valvehouse list`
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  valvehouse list\n  valvehouse list --stats\n  valvehouse --format json list"
)]
pub(in crate::cli) struct List {
    /// Show what the calls of each hook and tool have cost on the hosts that run
    #[arg(long)]
    pub(in crate::cli) stats: bool,
    /// List the tools instead: their arguments, tags and models
    #[arg(long, conflicts_with = "stats")]
    pub(in crate::cli) tools: bool,
}

/// The form of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Format {
    /// For people.
    Human,
    /// For programs: one JSON value a line.
    Json,
    /// For services that scan code; of `check` only.
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
    /// Serve the project to OpenAI clients and follow its folder
    Serve(Serve),
    /// Serve for whoever writes scripts: show what they make of every request, test and replay on save
    #[cfg(feature = "workbench")]
    Dev(Dev),
    /// Ask a model through the same filters, without a server
    Chat(Chat),
    /// Show and look after the runs of models with a memory
    Runs(Runs),
    /// Go on with a run that waits for a person, failed or was interrupted
    Resume(Resume),
    /// Show what a running host did for its requests, step by step
    Trace(Trace),
    /// Call a tool through the filters, without a model
    Invoke(Invoke),
    /// Make a filter, a tool, a module or a project to begin with
    #[cfg(feature = "workbench")]
    New(New),
    /// Run one hook of a script, or a whole turn, on a body, and show what changed
    #[cfg(feature = "workbench")]
    Run(Run),
    /// Try functions and scripts line by line
    #[cfg(feature = "workbench")]
    Repl(Repl),
    /// Show all plugins and how they stand
    List(List),
    /// Look for mistakes in scripts without running them
    Check(Check),
    /// Run the tests that stand beside scripts
    #[cfg(feature = "workbench")]
    Test(Test),
    /// Look at and change the settings that scripts declare
    #[command(subcommand)]
    Valves(Valves),
    /// Show and change what plugins and native tools may reach of the world
    Grant(Grant),
    /// Show the settings in force and where each comes from
    Config(Config),
    /// Show which filters run for a model, in which order, and why the others do not
    Explain(Explain),
    /// Show what the code of a problem means, with an example of how it is right
    ExplainCode(ExplainCode),
    /// Check that a running host answers
    Health(Health),
    /// Show what a plugin was, who changed it and how its versions differ
    History(History),
    /// Put a version of a plugin back: its file, valves and switches; or all scripts of a generation
    Rollback(Rollback),
    /// Check, test and upload a folder of scripts to the store, as one generation
    Apply(Apply),
    /// Write the scripts of the store into a folder
    Pull(Pull),
    /// Compare the scripts of the store with those of a folder
    Diff(Diff),
    /// Accept a change that weakens a guard, or its removal
    #[command(after_help = "Examples:
  valvehouse list                             what waits, and what it would take from the guard
  valvehouse confirm pii_guard")]
    Confirm(Confirm),
    /// Accept the removal of a guard and unblock requests
    #[command(after_help = "Examples:
  valvehouse confirm-removal pii_guard")]
    ConfirmRemoval(Confirm),
    /// Give a plugin what was stored for a removed one of the same id
    #[command(after_help = "Examples:
  valvehouse adopt weather                    its valves, grants and kv entries
  valvehouse adopt weather --drop             delete them instead")]
    Adopt(Adopt),
    /// Show the hosts on the store, and which generation each serves
    Nodes(Nodes),
    /// Make and change the tables of the store's database, for hosts that wait for it
    Migrate(Migrate),
    /// Run a quarantined version of a plugin again
    Release(Release),
    /// Serve the project's tools to a client of MCP over stdin and stdout, or look after other MCP servers
    #[cfg(feature = "mcp")]
    Mcp(Mcp),
    /// Look after the store itself
    #[command(subcommand)]
    Store(Store),
    /// Make a key for clients or operators
    Key(Key),
    /// Write down what scripts may use: files for editors, or a page
    Definitions(Definitions),
    /// Help an editor with scripts, over the language server protocol
    #[cfg(feature = "workbench")]
    Lsp(Lsp),
    /// Print the script with which a shell completes commands and options
    #[cfg(feature = "workbench")]
    Completions(Completions),
    /// Print the manual's page, as man reads it
    #[cfg(feature = "workbench")]
    #[command(hide = true)]
    Manual,
}

impl Command {
    /// Returns `true` if the command itself shows what scripts write and break with.
    pub(in crate::cli) fn is_shown(&self) -> bool {
        match self {
            #[cfg(feature = "workbench")]
            Self::Dev(_) | Self::Run(_) => true,
            _ => false,
        }
    }

    /// Returns `true` if scripts break because somebody wants to see them break.
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
  valvehouse serve --port 0                   any free port; it is told on stderr
  valvehouse serve --listen 127.0.0.1:8080 --project ./gateway

Ctrl-C lets answers under way finish for 30 s; a second one ends at once. SIGHUP reads
valvehouse.toml again and looks at the folders.")]
pub(in crate::cli) struct Serve {
    /// Listen at this address in place of server.listen
    #[arg(long, value_name = "ADDRESS")]
    pub(in crate::cli) listen: Option<String>,
    /// The port to listen on; 0 for any free one
    #[arg(long, value_name = "PORT")]
    pub(in crate::cli) port: Option<u16>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  valvehouse chat \"What is a valve?\"
  valvehouse chat --model assistant --user ann \"hello\"
  git diff | valvehouse chat                  the text comes from stdin
  valvehouse chat                             a conversation, line by line
  valvehouse chat --trace \"hello\"             and what every filter did
  yes | valvehouse chat \"tidy up\"            questions are answered from stdin
  valvehouse chat --continue \"and then?\"     on with the newest conversation of a model with a memory
  valvehouse chat --continue=CHAT             with that one

Questions of filters and tools are shown on stderr and answered with a line of stdin: text as it is,
a choice also by its number, a confirmation with y or n (an empty line is no). At the end of stdin,
and where the text came from there, nobody answers: who asked hears so at once, and the run of a
model with a memory waits (valvehouse resume).")]
pub(in crate::cli) struct Chat {
    /// Send this text; without it, read stdin or ask at the terminal
    #[arg(value_name = "TEXT")]
    pub(in crate::cli) text: Vec<String>,
    /// The model; the first one where none is named
    #[arg(long, short, value_name = "MODEL")]
    pub(in crate::cli) model: Option<String>,
    /// The id of the user who asks
    #[arg(long, short, value_name = "USER")]
    pub(in crate::cli) user: Option<String>,
    /// Write the answer when it is whole
    #[arg(long)]
    pub(in crate::cli) no_stream: bool,
    /// Set a variable of the turn, over which one that the configuration sets for the model counts
    #[arg(long = "variable", value_name = "KEY=VALUE", value_parser = pair)]
    pub(in crate::cli) variables: Vec<(String, String)>,
    /// Show on stderr what every filter, model and tool did, what it cost and what it changed
    #[arg(long)]
    pub(in crate::cli) trace: bool,
    /// Go on with the newest conversation, or with that one
    #[arg(long = "continue", value_name = "CHAT", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub(in crate::cli) goes_on: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  valvehouse invoke calculator expression=\"2 + 3 * 4\"
  valvehouse invoke weather --args '{\"city\": \"Tokyo\"}'
  echo '{\"city\": \"Tokyo\"}' | valvehouse invoke weather --args -
  valvehouse invoke todo_list --chat 42 --format json

Arguments are checked as a model's would be. Exit code 1: the tool or a filter refused.")]
pub(in crate::cli) struct Invoke {
    /// The tool
    pub(in crate::cli) tool: String,
    /// Arguments, one by one
    #[arg(value_name = "KEY=VALUE", value_parser = pair)]
    pub(in crate::cli) values: Vec<(String, String)>,
    /// All arguments as a JSON object; - reads it from stdin
    #[arg(long, value_name = "JSON")]
    pub(in crate::cli) args: Option<String>,
    /// The variables to begin with, as a JSON object
    #[arg(long, value_name = "JSON")]
    pub(in crate::cli) context: Option<String>,
    /// The id of the user who asks
    #[arg(long, short, value_name = "USER")]
    pub(in crate::cli) user: Option<String>,
    /// The id of the chat it happens in
    #[arg(long, value_name = "CHAT")]
    pub(in crate::cli) chat: Option<String>,
    /// Run the filters and the middleware of this model [default: the filters of all models]
    #[arg(long, short, value_name = "MODEL")]
    pub(in crate::cli) model: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  valvehouse check                            everything in filters/
  valvehouse check filters/turn_limit.rhai
  valvehouse check turn_limit --strict        by id; warnings count too
  valvehouse check --format json | jq .problems
  valvehouse check --format sarif > check.sarif   for code scanning
  valvehouse explain-code V502                what a code in brackets means")]
pub(in crate::cli) struct Check {
    /// Files, folders or ids of plugins; all of them where none is named
    #[arg(value_name = "PATH")]
    pub(in crate::cli) paths: Vec<PathBuf>,
    /// Warnings are findings too
    #[arg(long)]
    pub(in crate::cli) strict: bool,
    /// Load the files whose paths are read, one a line, and answer each with an empty line
    #[arg(long, hide = true)]
    pub(in crate::cli) load: bool,
}

#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  valvehouse valves get turn_limit
  valvehouse valves set turn_limit max_turns=8
  valvehouse valves set turn_limit bonus_turns=2 --user ann
  valvehouse valves reset turn_limit max_turns")]
pub(in crate::cli) enum Valves {
    /// Show the values in force and where each comes from
    #[command(after_help = "Examples:
  valvehouse valves get turn_limit
  valvehouse valves get turn_limit max_turns  the bare value
  valvehouse valves get turn_limit --user ann")]
    Get {
        /// The plugin
        id: String,
        /// Only this valve, as a bare value
        key: Option<String>,
        /// The valves of this user
        #[arg(long, short, value_name = "USER")]
        user: Option<String>,
    },
    /// Set values; those that are not named stay as they are
    #[command(after_help = "Examples:
  valvehouse valves set turn_limit max_turns=8
  valvehouse valves set turn_limit max_turns=null    back to the default
  valvehouse valves set redact words=alpha,beta
  valvehouse valves set turn_limit bonus_turns=2 --user ann")]
    Set {
        /// The plugin
        id: String,
        /// Set these values; null restores the default
        #[arg(required = true, value_name = "KEY=VALUE", value_parser = pair)]
        values: Vec<(String, String)>,
        /// The valves of this user
        #[arg(long, short, value_name = "USER")]
        user: Option<String>,
    },
    /// Put values back to what valvehouse.toml and the script say
    #[command(after_help = "Examples:
  valvehouse valves reset turn_limit max_turns
  valvehouse valves reset turn_limit          all of them")]
    Reset {
        /// The plugin
        id: String,
        /// Reset these keys only [default: all]
        #[arg(value_name = "KEY")]
        keys: Vec<String>,
        /// The valves of this user
        #[arg(long, short, value_name = "USER")]
        user: Option<String>,
    },
    /// Print the JSON Schema of the values
    #[command(after_help = "Examples:
  valvehouse valves spec turn_limit
  valvehouse valves spec turn_limit --user-valves")]
    Spec {
        /// The plugin
        id: String,
        /// Of what each user may set
        #[arg(long)]
        user_valves: bool,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  valvehouse grant weather                    what it may reach, and who says so
  valvehouse grant weather http=api.example.com,*.example.org
  valvehouse grant file_read files=data,notes
  valvehouse grant shell_exec shell=git files=.
  valvehouse grant weather --revoke http=api.example.com
  valvehouse grant weather --revoke           everything that was granted here

Capabilities:
  http   hosts: http=NAME,… or http for every public one; private ones only by name
  files  folders, relative to the project or whole: files=FOLDER,…
  shell  programs: shell=NAME,… or shell for all of them
  env    environment variables: env=NAME,… or env for all of them
  kv     a durable map of its own; declaring it is enough
  llm    models of this host; declaring it is enough

What is granted here is kept in the store and comes on top of [grants.ID] in valvehouse.toml.
Running hosts take it up at once.")]
pub(in crate::cli) struct Grant {
    /// The plugin, or a native tool such as file_read
    pub(in crate::cli) id: String,
    /// Grant these capabilities; without any, show the current grants
    #[arg(value_name = "CAPABILITY")]
    pub(in crate::cli) capabilities: Vec<String>,
    /// Take it back; without a capability, all of it
    #[arg(long)]
    pub(in crate::cli) revoke: bool,
}

#[cfg(feature = "mcp")]
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  valvehouse mcp                              what a client starts: its requests come on stdin
  claude mcp add house -- valvehouse mcp --project /path/to/project

  valvehouse mcp list                         the servers of [[mcp]] and how their tools stand
  valvehouse mcp approve github               offer its tools as they are now
  valvehouse mcp login github                 log in to it, where its auth is oauth

The same tools are served over HTTP by valvehouse serve, at /mcp.")]
#[command(args_conflicts_with_subcommands = true)]
pub(in crate::cli) struct Mcp {
    /// The id of the user for whom the client asks
    #[arg(long, short, value_name = "USER")]
    pub(in crate::cli) user: Option<String>,
    #[command(subcommand)]
    pub(in crate::cli) command: Option<McpCommand>,
}

#[cfg(feature = "mcp")]
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum McpCommand {
    /// List the servers of [[mcp]] and their tools, with what changed since they were approved
    #[command(after_help = "Examples:
  valvehouse mcp list
  valvehouse mcp list github
  valvehouse --format json mcp list

Exit code 1: a server is not available, or a tool waits for approval.")]
    List {
        /// Only this server
        name: Option<String>,
    },
    /// Offer tools of a server as they are now, and no longer when they change
    #[command(after_help = "Examples:
  valvehouse mcp approve github               all of its tools
  valvehouse mcp approve github search read   these two
  valvehouse mcp approve github prompt:review   one of its prompts
  valvehouse mcp approve github --forget search   take an approval back

Approvals are written to mcp.lock.json of the project. Running hosts follow at once.")]
    Approve {
        /// The server
        name: String,
        /// Its tools, as the server calls them; all of them where none is named
        #[arg(value_name = "TOOL")]
        tools: Vec<String>,
        /// Take the approval back
        #[arg(long)]
        forget: bool,
    },
    /// Log in to a server whose auth is "oauth", in a browser
    #[command(after_help = "Examples:
  valvehouse mcp login github
  valvehouse mcp login github --no-browser    only print the address to open

The tokens are sealed in the store, where running hosts find and refresh them.")]
    Login {
        /// The server
        name: String,
        /// Print the address in place of opening it
        #[arg(long)]
        no_browser: bool,
    },
    /// Forget the tokens of a login
    Logout {
        /// The server
        name: String,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  valvehouse explain --model demo
  valvehouse explain --model demo --user ann  with that user's own valves
  valvehouse explain --coverage               the guards that ran in the last hour, and where none did")]
pub(in crate::cli) struct Explain {
    /// The model; the first one where none is named
    #[arg(long, short, value_name = "MODEL")]
    pub(in crate::cli) model: Option<String>,
    /// The id of the user who asks
    #[arg(long, short, value_name = "USER")]
    pub(in crate::cli) user: Option<String>,
    /// List the guards that ran in the requests of the last hour, by endpoint, model, user and hook
    #[arg(long)]
    pub(in crate::cli) coverage: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  valvehouse config                           secrets are not shown
  valvehouse config server
  valvehouse config server.listen --format json
  valvehouse config --reference               every setting there is, as Markdown
  valvehouse config --schema                  the same for editors, as JSON Schema")]
pub(in crate::cli) struct Config {
    /// Only this setting, or those of this section
    #[arg(value_name = "KEY")]
    pub(in crate::cli) key: Option<String>,
    /// Print the page about all settings there are
    #[arg(long, conflicts_with = "key")]
    pub(in crate::cli) reference: bool,
    /// Print the JSON Schema of valvehouse.toml
    #[cfg(feature = "workbench")]
    #[arg(long, conflicts_with_all = ["key", "reference"])]
    pub(in crate::cli) schema: bool,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Adopt {
    /// The plugin
    pub(in crate::cli) id: String,
    /// Delete what was set aside
    #[arg(long)]
    pub(in crate::cli) drop: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  valvehouse health                           the host of these settings
  valvehouse health --ready --at http://127.0.0.1:9099

Exit codes: 0 it answers, 69 it does not.")]
pub(in crate::cli) struct Health {
    /// Ask whether it should be sent requests, not only whether it lives
    #[arg(long)]
    pub(in crate::cli) ready: bool,
    /// The address of the host, in place of the one that runs on this project
    #[arg(long, value_name = "URL")]
    pub(in crate::cli) at: Option<String>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Confirm {
    /// The guard
    pub(in crate::cli) id: String,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  valvehouse release pii_guard

A version is quarantined when it ended the process of a host. Saving another text releases the
plugin, too. valvehouse explain-code V010 says when that happens.")]
pub(in crate::cli) struct Release {
    /// The plugin whose version is quarantined
    pub(in crate::cli) id: String,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  valvehouse nodes
  valvehouse nodes --format json

Of hosts that were heard of within five seconds. Those that serve an earlier generation than the store's
are behind; a host that stays behind says why in its log and at /readyz?verbose.")]
pub(in crate::cli) struct Nodes {}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  valvehouse migrate
  valvehouse migrate --check                  is anything missing?

With store.migrate_url where it is set, else with store.url. All steps are one transaction: all of
them are taken, or none. Hosts go on meanwhile; those with [store] migrate = \"wait\" start as soon
as it is done. A file of SQLite takes its steps when it is opened.
Exit codes: 1 --check, and steps are missing.")]
pub(in crate::cli) struct Migrate {
    /// Only list the missing steps
    #[arg(long)]
    pub(in crate::cli) check: bool,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Store {
    /// Drop all stored valves when the key that they are sealed with is lost; all else stays
    #[command(after_help = "Examples:
  valvehouse store forget-valves

Stop the hosts first. Nothing is dropped while the key is there ([store] key, or the file beside the
store that ends in .key).")]
    ForgetValves,
    /// Copy all that is stored into an empty store, such as from SQLite to Postgres
    #[command(after_help = "Examples:
  valvehouse store copy sqlite://.valvehouse/state.db env:DATABASE_URL
  valvehouse store copy env:DATABASE_URL sqlite://copy.db --from-key env:VALVEHOUSE_STORE_KEY

Stop the hosts first. All is copied, or nothing: valves, switches, grants, histories, kv,
conversations, runs, responses and logins. What people set is opened with the key of FROM and sealed
with that of TO. A key is that of the option; without it the file beside an SQLite file, where there is
one; else [store] key. Afterwards set store.url to TO.")]
    Copy {
        /// A URL as store.url takes it, or env:NAME or file:PATH with one in it
        from: String,
        /// The same of a store without rows; tables are made where they are missing
        to: String,
        /// The key of FROM: env:NAME, file:PATH or itself
        #[arg(long, value_name = "KEY")]
        from_key: Option<String>,
        /// The key of TO
        #[arg(long, value_name = "KEY")]
        to_key: Option<String>,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  valvehouse history turn_limit               all versions, the newest first
  valvehouse history turn_limit 3             what version 3 changed
  valvehouse history turn_limit 3 --current   what putting version 3 back would change
  valvehouse history turn_limit 3 --format json | jq -r .content

Kept are the last 200 versions of a plugin, also of one that is gone: what was edited by hand, set by
commands, over HTTP or at the page. Secrets are never shown.")]
pub(in crate::cli) struct History {
    /// The plugin
    pub(in crate::cli) id: String,
    /// The version to show; without one they are listed
    #[arg(value_name = "VERSION")]
    pub(in crate::cli) version: Option<u64>,
    /// Compare it with what is there now, not with the version before it
    #[arg(long, requires = "version")]
    pub(in crate::cli) current: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  valvehouse key                              a new key, and its hash for valvehouse.toml
  valvehouse key --hash < key.txt             the hash of a key that you have

Clients send the key; valvehouse.toml needs only the hash:
  [server]
  keys = [\"sha256:…\", { key = \"sha256:…\", user = { id = \"ann\" } }]
  [admin]
  key = \"sha256:…\"
A new key is shown once and kept nowhere.")]
pub(in crate::cli) struct Key {
    /// Read a key from stdin and show its hash, instead of making one
    #[arg(long)]
    pub(in crate::cli) hash: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  valvehouse history turn_limit               which versions there are
  valvehouse rollback turn_limit 3
  valvehouse rollback 38                      all scripts of generation 38, where they are in the store

The file is byte for byte what it was, the operators' valves and switches as they were; what users set
for themselves stays. A deleted plugin comes back. What is replaced is in the history and can be put
back in turn. Refused, with the reason, when that version would not load any more. The scripts of an
earlier generation become a new one; valves and switches stay as they are.")]
pub(in crate::cli) struct Rollback {
    /// The plugin, or the generation of all scripts
    #[arg(value_name = "ID|GENERATION")]
    pub(in crate::cli) id: String,
    /// The version to put back
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

DIR holds filters/ and tools/: scripts, modules and their tests. All of it is checked (valvehouse
check) and tested (valvehouse test) first, and uploaded in one transaction. Hosts with [folders]
source = \"store\" compile it beside the running set, and take it whole or not at all.
Exit codes: 1 findings, nothing was uploaded; 69 --wait, and a host does not serve it.")]
pub(in crate::cli) struct Apply {
    /// The folder with filters/ and tools/ [default: the folders of the settings]
    #[arg(value_name = "DIR")]
    pub(in crate::cli) folder: Option<PathBuf>,
    /// Wait until all hosts serve it, and name those that do not
    #[arg(long)]
    pub(in crate::cli) wait: bool,
    /// Upload without running the tests
    #[cfg(feature = "workbench")]
    #[arg(long)]
    pub(in crate::cli) no_test: bool,
    /// The earliest version of a host that can run it [default: the version of this program]
    #[arg(long, value_name = "VERSION")]
    pub(in crate::cli) needs: Option<String>,
    /// Print the manifest, which is what is signed, and upload nothing
    #[arg(long)]
    pub(in crate::cli) manifest: bool,
    /// The file with the signature of the manifest, as minisign writes it
    #[arg(long, value_name = "FILE", conflicts_with = "manifest")]
    pub(in crate::cli) signature: Option<PathBuf>,
    /// Load the files whose paths are read, one a line, and answer each with an empty line
    #[arg(long, hide = true)]
    pub(in crate::cli) load: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  valvehouse pull                             into the folders of these settings
  valvehouse pull ./policies --generation 38
  valvehouse pull --force                     replace and remove what is different

Without --force a file that would be replaced or removed stops it, and nothing is written.")]
pub(in crate::cli) struct Pull {
    /// The folder with filters/ and tools/ [default: the folders of the settings]
    #[arg(value_name = "DIR")]
    pub(in crate::cli) folder: Option<PathBuf>,
    /// The generation of the scripts [default: the latest]
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

Exit codes: 0 they are the same, 1 they differ.")]
pub(in crate::cli) struct Diff {
    /// The folder with filters/ and tools/ [default: the folders of the settings]
    #[arg(value_name = "DIR")]
    pub(in crate::cli) folder: Option<PathBuf>,
    /// The generation of the scripts [default: the latest]
    #[arg(long, value_name = "GENERATION")]
    pub(in crate::cli) generation: Option<u64>,
}
