//! Codes of declarations in a script, and of settings.

use super::codes;

codes! {
    /// V201 an invalid value of a key
    ///
    /// `global`, `security` and `hold` are `true` or `false`, `on_error` is `abort` or `continue`, `mode` is `enforce` or `audit`
    /// and only for filters. The script does not load, because a guard with an invalid key would not protect anything.
    ///
    /// Wrong:
    /// ```rhai
    /// /*
    /// on_error: ignore
    /// */
    /// fn inlet(body) {
    ///     body
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// /*
    /// on_error: continue
    /// */
    /// fn inlet(body) {
    ///     body
    /// }
    /// ```
    BadSwitch;

    /// V202 an unknown requirement
    ///
    /// `requirements` lists the capabilities that a script uses: `http`, `kv`, `llm`, `tools`, `files`, `shell`, `env`,
    /// `vectors`, `memories`, `chats`.
    /// Packages cannot be installed.
    ///
    /// Wrong:
    /// ```rhai
    /// /*
    /// requirements: pydantic
    /// */
    /// fn inlet(body) {
    ///     body
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// /*
    /// requirements: kv
    /// */
    /// fn inlet(body) {
    ///     kv::incr("turns");
    ///     body
    /// }
    /// ```
    UnknownRequirement;

    /// V203 an unsupported host version
    ///
    /// `required_host_version` is higher than the version of this host, or is not a version.
    ///
    /// Wrong:
    /// ```rhai
    /// /*
    /// required_host_version: latest
    /// */
    /// fn inlet(body) {
    ///     body
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// /*
    /// required_host_version: 0.1.0
    /// */
    /// fn inlet(body) {
    ///     body
    /// }
    /// ```
    HostVersion;

    /// V204 an invalid valve declaration
    ///
    /// A valve is a default value, or a map with `value` and optional keys: `type`, `title`, `description`, `minimum`,
    /// `maximum`, `enum`, `pattern`, `items`, `secret`, `multiline`. The default must satisfy the constraints.
    ///
    /// Wrong:
    /// ```rhai
    /// const Valves = #{
    ///     max_turns: #{ value: 4, minimum: 10 },
    /// };
    ///
    /// fn inlet(body, valves) {
    ///     body.max = valves.max_turns;
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// const Valves = #{
    ///     max_turns: #{ value: 4, minimum: 1 },
    /// };
    ///
    /// fn inlet(body, valves) {
    ///     body.max = valves.max_turns;
    /// }
    /// ```
    BadValve;

    /// V205 a computed constant
    ///
    /// `Valves` and similar constants are read without running the script, so they can only contain literal values.
    ///
    /// Wrong:
    /// ```rhai
    /// const Valves = #{ since: time::unix() };
    ///
    /// fn inlet(body, valves) {
    ///     body.since = valves.since;
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// const Valves = #{ since: 0 };
    ///
    /// fn inlet(body, valves) {
    ///     body.since = valves.since;
    /// }
    /// ```
    Computed;

    /// V206 an invalid `match`
    ///
    /// `match` skips `stream` for events that contain none of its texts. It is invalid in a guard or with `stream_end`, which
    /// must see all events, and has no effect without `stream`. A `match` lists at most 64 texts.
    ///
    /// Wrong:
    /// ```rhai
    /// /*
    /// match: secret
    /// */
    /// fn inlet(body) {
    ///     body
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// /*
    /// match: secret
    /// */
    /// fn stream(event) {
    ///     event.text = text::replace(event.text, "secret", "…");
    /// }
    /// ```
    BadMatch;

    /// V207 an unknown parameter
    ///
    /// Hooks, callbacks, pipes and handlers receive the parameters that they declare. This name is not one of the available
    /// parameters.
    ///
    /// Wrong:
    /// ```rhai
    /// fn inlet(body, user) {
    ///     body.who = user.id;
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// fn inlet(body, __user__) {
    ///     body.who = __user__.id;
    /// }
    /// ```
    UnknownParameter;

    /// V208 a misspelled hook
    ///
    /// The name of a function is almost that of a hook, but the host does not call it.
    ///
    /// Wrong:
    /// ```rhai
    /// fn inlet(body) {
    ///     body
    /// }
    ///
    /// fn onStream(event) {
    ///     event
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// fn inlet(body) {
    ///     body
    /// }
    ///
    /// fn stream(event) {
    ///     event
    /// }
    /// ```
    AlmostHook;

    /// V209 a callback that is never called
    ///
    /// Callbacks are called for agent runs in a filter with `const callbacks = true`, and have the names that the help lists.
    ///
    /// Wrong:
    /// ```rhai
    /// fn on_turn_start(event) {
    ///     print(event.agent);
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// const callbacks = true;
    ///
    /// fn on_turn_start(event) {
    ///     print(event.agent);
    /// }
    /// ```
    DeadCallback;

    /// V210 a function in a file of another kind
    ///
    /// Hooks and callbacks only run in filters, `handler` and `tools` in tool files, and `action` in files in `actions/`.
    ///
    /// Wrong:
    /// ```rhai
    /// fn handler(args) {
    ///     args
    /// }
    ///
    /// fn inlet(body) {
    ///     body
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// fn handler(args) {
    ///     args
    /// }
    /// ```
    MisplacedHook;

    /// V211 a tool without a handler
    ///
    /// A tool file has `fn handler(args)`, or `fn tools()` that lists several tools. A file with hooks belongs in `filters/`.
    NoHandler;

    /// V212 both `handler` and `tools` in one file
    ///
    /// A file is either one tool (`fn handler`) or a list of tools (`fn tools`), not both.
    ///
    /// Wrong:
    /// ```rhai
    /// fn handler(args) {
    ///     args
    /// }
    ///
    /// fn tools() {
    ///     [#{ name: "echo", handler: handler }]
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// fn echo(args) {
    ///     args
    /// }
    ///
    /// fn tools() {
    ///     [#{ name: "echo", handler: echo }]
    /// }
    /// ```
    TwoForms;

    /// V213 an invalid tool declaration
    ///
    /// The name, description or parameters of a tool, which models read, are invalid.
    ///
    /// Wrong:
    /// ```rhai
    /// const parameters = #{
    ///     city: #{ type: "text", required: true },
    /// };
    ///
    /// fn handler(args) {
    ///     args.city
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// const parameters = #{
    ///     city: #{ type: "string", required: true },
    /// };
    ///
    /// fn handler(args) {
    ///     args.city
    /// }
    /// ```
    BadTool;

    /// V214 an invalid list of tools
    ///
    /// `tools()` or `tool_info()`, which run once when the file loads, returned an invalid value.
    ///
    /// Wrong:
    /// ```rhai
    /// fn echo(args) {
    ///     args
    /// }
    ///
    /// fn tools() {
    ///     #{ name: "echo", handler: echo }
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// fn echo(args) {
    ///     args
    /// }
    ///
    /// fn tools() {
    ///     [#{ name: "echo", handler: echo }]
    /// }
    /// ```
    BadToolList;

    /// V215 two tools with one name
    ///
    /// A model calls tools by name; of two tools with the same name, only the later one is used.
    ///
    /// Wrong:
    /// ```rhai
    /// fn echo(args) {
    ///     args
    /// }
    ///
    /// fn tools() {
    ///     [#{ name: "echo", handler: echo }, #{ name: "echo", handler: echo }]
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// fn echo(args) {
    ///     args
    /// }
    ///
    /// fn tools() {
    ///     [#{ name: "echo", handler: echo }, #{ name: "repeat", handler: echo }]
    /// }
    /// ```
    SameTool;

    /// V216 a missing tool
    ///
    /// A model of `valvehouse.toml` lists a tool that no file defines, or a native tool without a grant.
    MissingTool;

    /// V217 an invalid list of models
    ///
    /// `fn pipe(body)` answers as a model; `fn pipes()` lists several models, as texts or as `#{ id, name }`.
    ///
    /// Wrong:
    /// ```rhai
    /// fn pipes() {
    ///     #{ small: "Small" }
    /// }
    ///
    /// fn pipe(body) {
    ///     body.model
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// fn pipes() {
    ///     [#{ id: "small", name: "Small" }]
    /// }
    ///
    /// fn pipe(body) {
    ///     body.model
    /// }
    /// ```
    BadPipe;

    /// V218 an invalid stored value of a valve
    ///
    /// A stored value no longer satisfies the script's declaration, so the default is used. Set it again, or reset it:
    /// `valvehouse valves reset ID NAME`.
    ValveMisfit;

    /// V220 an unknown key
    ///
    /// The opening comment has a key, or the file a constant, that the host does not read: it is misspelled or in the wrong
    /// place. Of the constants, only those that nothing in the file reads are reported.
    ///
    /// Wrong:
    /// ```rhai
    /// /*
    /// on_eror: continue
    /// */
    /// fn inlet(body) {
    ///     body
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// /*
    /// on_error: continue
    /// */
    /// fn inlet(body) {
    ///     body
    /// }
    /// ```
    UnknownKey;

    /// V221 settings for an unknown name
    ///
    /// `valvehouse.toml` names a filter, tool or valve that does not exist: in `[[models]] filters`, in `[filters.ID]`,
    /// `[tools.ID]` or `[grants.ID]`, or among `valves`. Requests for a model that lists a missing filter are rejected, because
    /// the filter may be a guard. A guard with an unknown valve in its settings does not load.
    ///
    /// A section for an unknown plugin is a warning, because its script may be added later. It is an error if its name is similar
    /// to that of a guard without settings of its own: the guard runs without the settings that are probably meant for it, so
    /// `check` fails. Correct the name; if the section is for another filter, give the guard a section of its own, which may be
    /// empty.
    UnknownName;

    /// V222 settings that cannot be applied
    ///
    /// `valvehouse.toml` was changed while a host is running, and is unreadable, invalid, empty or missing. The host keeps all
    /// previous settings, including those of guards. Correct the file and save it; to continue without an empty or missing
    /// file, restart the host or send it SIGHUP (`systemctl reload`).
    SettingsRefused;

    /// V223 settings that need a restart
    ///
    /// `valvehouse.toml` was changed while a host is running, in settings that are read once, such as `server.listen` or
    /// `store.url`. All other changes are in effect. Restart the host to apply these too.
    SettingsWaiting;

    /// V224 a secret that cannot be read
    ///
    /// `valvehouse.toml` names a secret as `env:NAME` or `file:PATH`, and in the environment of `valvehouse check` the variable
    /// is not set or the file cannot be read; or a provider has no `api_key`, and its default variable is not set. This is a
    /// warning, because the host may run in another environment. Set the variable, write the file, or name another.
    SecretUnread;

    /// V225 an unavailable MCP server
    ///
    /// A server of `[[mcp]]` cannot be started or reached, or its connection ended. Its approved tools stay listed, and their
    /// calls fail with the reason. The host reconnects with growing delays of up to two minutes. `valvehouse mcp list` shows
    /// the cause: a program that is not installed, a wrong address, a missing token.
    McpAway;

    /// V226 a tool of an MCP server that is not offered
    ///
    /// A tool of a server of `[[mcp]]` is only offered while its name, description and schema are as approved. New and changed
    /// tools, and tools that reuse the name of another, are not offered.
    ///
    /// Review the tool, and approve it if it is correct:
    /// ```sh
    /// valvehouse mcp list github
    /// valvehouse mcp approve github search
    /// ```
    /// With `trust = "always"` in its `[[mcp]]`, all tools of the server are offered.
    McpQuarantined;

    /// V227 an invalid schedule
    ///
    /// `const every = "1h"` is the interval of `fn tick()`, and `const ttl = "10m"` the interval at which `pipes()` or
    /// `tools()` are called in the background. Both are numbers with the units `s`, `m`, `h` and `d`, from one second to 30
    /// days, and each needs its function.
    ///
    /// Wrong:
    /// ```rhai
    /// const every = 3600;
    ///
    /// fn tick() {
    ///     kv_is_cleared()
    /// }
    ///
    /// fn kv_is_cleared() {
    ///     print("cleared")
    /// }
    ///
    /// fn inlet(body) {
    ///     body
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// const every = "1h";
    ///
    /// fn tick() {
    ///     print("cleared")
    /// }
    ///
    /// fn inlet(body) {
    ///     body
    /// }
    /// ```
    BadSchedule;

    /// V228 a rejected generation of the store
    ///
    /// Scripts come from the store (`[folders] source = "store"`), and this host cannot run the latest generation: a script
    /// does not load or lacks a grant here, a guard would be weakened or removed, or the generation needs a later host version,
    /// is not signed with `folders.public_key`, or does not match its manifest. The host keeps all scripts and valves of the
    /// previous generation. Fix the reported cause with `valvehouse grant`, `valvehouse confirm`, `valvehouse apply` with a
    /// corrected folder, or `valvehouse rollback GENERATION`. `valvehouse nodes` lists the affected hosts.
    GenerationRefused;

    /// V229 an unavailable store
    ///
    /// The database of `store.url` does not respond. The host continues with the generation that it served last or, after a
    /// restart, with the snapshot on its disk ([When the database is unavailable](several-hosts.md#when-the-database-is-unavailable)).
    /// Changes are rejected until the database is available again; the host then recovers by itself.
    StoreAway;

    /// V230 a connection pooler without notifications
    ///
    /// `store.url` uses a pooler that gives each transaction another server session, such as pgbouncer in transaction mode.
    /// `LISTEN` does not work with it. The host works, but polls for changes ten times a second and uses no prepared
    /// statements. For the one connection of each host that listens, name the database without the pooler:
    ///
    /// ```toml
    /// [store]
    /// url = "postgres://valvehouse@pgbouncer.internal:6432/valvehouse"
    /// listen_url = "postgres://valvehouse@db.internal:5432/valvehouse"
    /// ```
    StorePolled;

    /// V231 a file in `actions/` without an action
    ///
    /// A file in `actions/` has `fn action(body)`. A file with hooks belongs in `filters/`, one with `handler` in `tools/`.
    NoAction;

    /// V232 an invalid action
    ///
    /// `const actions` lists the buttons of a file as maps `#{ id, name, icon_url }`, at most 32. An id has 1 to 64 characters of
    /// a-z, A-Z, 0-9, `_` and `-`. `timeout` in the opening comment is in milliseconds.
    ///
    /// Wrong:
    /// ```rhai
    /// const actions = ["short", "long"];
    ///
    /// fn action(body, __action_id__) {
    ///     __action_id__
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// const actions = [#{ id: "short", name: "Shorten" }, #{ id: "long" }];
    ///
    /// fn action(body, __action_id__) {
    ///     __action_id__
    /// }
    /// ```
    BadAction;
}
