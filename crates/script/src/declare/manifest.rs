//! Reads the declarations of a script: the opening comment and the literal constants.
//!
//! Also parses durations such as `"90s"`, `"10m"` and `"1h30m"`.

use super::guard_claim::{Claim, frontmatter};
use super::hooks::HookFunction;
use crate::diagnostic::{Cause, Code, Diagnostic, MAX_PROBLEMS};
use crate::load::source::SourceFile;
use std::path::Path;
use std::time::Duration;
use valvehouse_core::error::{DeclarationError, Misdeclaration};
use valvehouse_core::filter::{FailurePolicy, Hook};
use valvehouse_core::text::{nearest, optional};
use valvehouse_core::valve::ValveSchema;
use valvehouse_grants::Capability;
use valvehouse_json::Json;

/// The constants that declare properties of a plugin; they are read without running it.
pub(crate) const CONSTANTS: [&str; 13] = [
    "Valves",
    "UserValves",
    "file_handler",
    "endpoints",
    "toggle",
    "icon",
    "on_tool_error",
    "callbacks",
    "tool",
    "parameters",
    "actions",
    "ttl",
    "every",
];

/// The declarations of a script.
#[derive(Debug, Clone, Default)]
pub struct Manifest {
    /// All pairs of the opening comment in order; the last of several equal keys is used.
    pub frontmatter: Vec<(String, String)>,
    /// The valves that operators may change.
    pub valves: ValveSchema,
    /// The valves that each user may change; `None` if there are none.
    pub user_valves: Option<ValveSchema>,
    /// The capabilities that it requires.
    pub requirements: Vec<Capability>,
    /// `true` if it runs for every model.
    pub global: bool,
    /// The position in the chain from the opening comment, for a script without a valve `priority`.
    pub priority: Option<f64>,
    /// `true` if it only runs for requests that ask for it.
    pub toggle: bool,
    /// The effect of a failure on the request.
    pub failure_policy: FailurePolicy,
    /// `true` for a guard, which is never skipped silently.
    pub security: bool,
    /// `true` if it observes only: its verdicts and changes are counted and traced instead of applied.
    pub audit: bool,
    /// `true` if streamed answers are held back until it has processed their end.
    pub hold: bool,
    /// `true` if uploaded files are removed from the body for this script.
    pub file_handler: bool,
    /// The endpoints at which it runs; empty for chats only.
    pub endpoints: Vec<String>,
    /// `true` if it also receives failed tool calls.
    pub on_tool_error: bool,
    /// `true` if it has callbacks for agents.
    pub callbacks: bool,
    /// The texts of which an event must contain one for `stream` to be called; empty for all events.
    pub matches: Vec<String>,
    /// The valves of which one must have a value for the filter to be in a chain; empty if it always is.
    pub needs: Vec<String>,
    /// The hosts that it declares; `valve:NAME` is the host in a valve.
    pub allow_hosts: Vec<String>,
    /// The constant `tool`: its declaration as a tool.
    pub tool: Json,
    /// The constant `parameters`: its arguments as a tool.
    pub parameters: Json,
    /// The constant `actions`: its buttons.
    pub actions: Json,
    /// The time for which a list of `pipes()` or `tools()` is used; these functions may then wait. `None` if they
    /// are called once, when the file is loaded.
    pub ttl: Option<Duration>,
    /// The time between two calls of `tick()`.
    pub every: Option<Duration>,
    /// The URL of its icon.
    pub icon: Option<String>,
}

impl Manifest {
    /// Returns the value of a key of the opening comment.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.frontmatter.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// Returns its title, or its id if it has none.
    pub fn title<'a>(&'a self, id: &'a str) -> &'a str {
        self.get("title").filter(|title| !title.is_empty()).unwrap_or(id)
    }
}

/// The help for durations.
const DURATIONS: &str = "write a duration with the units s, m, h and d, from 1s to 30d";

/// The help for declarations of valves.
const VALVES: &str = "write a default, `max_turns: 4`, or a map with the default as `value`: `max_turns: #{ \
                      value: 4, minimum: 1, description: \"…\" }`";

/// The keys of the opening comment with fixed values, and these values.
pub(crate) const SWITCHES: [(&str, &[&str]); 5] = [
    ("global", &["true", "false"]),
    ("security", &["true", "false"]),
    ("hold", &["true", "false"]),
    ("on_error", &["abort", "continue"]),
    ("mode", &["enforce", "audit"]),
];

/// Reads the opening comment and the constants. Every problem is an error, so that a guard is never misread.
pub(crate) fn read(
    id: &str,
    path: &Path,
    source: &str,
    constants: &[(String, Json)],
) -> Result<Manifest, Vec<Diagnostic>> {
    let manifest = Manifest { frontmatter: frontmatter(source), global: true, ..Manifest::default() };
    let mut reader = Reader {
        script: (id, path, source),
        manifest,
        problems: Vec::new(),
        misnamed: Vec::new(),
        of_valves: Vec::new(),
    };
    reader.switches();
    reader.requirements();
    reader.host_version();
    reader.priority(constants);
    for key in ["match", "allow_hosts", "needs"] {
        let listed = list(reader.manifest.get(key).unwrap_or(""));
        match key {
            "match" => reader.manifest.matches = listed,
            "needs" => reader.manifest.needs = listed,
            _ => reader.manifest.allow_hosts = listed,
        }
    }
    constants.iter().for_each(|(name, value)| reader.constant(name, value));
    reader.needs();
    let Reader { manifest, problems, misnamed, of_valves, .. } = reader;
    let problems = [problems, misnamed, of_valves].concat();
    if problems.is_empty() { Ok(manifest) } else { Err(problems) }
}

/// Returns the capabilities and the hosts that a text declares, whether it loads or not.
pub fn requested_by(source: &str) -> (Vec<Capability>, Vec<String>) {
    let manifest = Manifest { frontmatter: frontmatter(source), ..Manifest::default() };
    let hosts = list(manifest.get("allow_hosts").unwrap_or(""));
    let mut reader = Reader {
        script: ("", Path::new(""), source),
        manifest,
        problems: Vec::new(),
        misnamed: Vec::new(),
        of_valves: Vec::new(),
    };
    reader.requirements();
    (reader.manifest.requirements, hosts)
}

/// A manifest while it is read, with its problems in the order of their reports.
struct Reader<'a> {
    /// The id, the path and the text.
    script: (&'a str, &'a Path, &'a str),
    manifest: Manifest,
    problems: Vec<Diagnostic>,
    misnamed: Vec<Diagnostic>,
    of_valves: Vec<Diagnostic>,
}

impl Reader<'_> {
    fn problem(&self, code: Code, (key, word): (&str, &str), message: String) -> Diagnostic {
        let (id, path, source) = self.script;
        Diagnostic::new(code, id, path, message).at_frontmatter(source, key, word)
    }

    fn wrong(&mut self, code: Code, place: (&str, &str), message: String, help: impl Into<String>) {
        self.problems.push(self.problem(code, place, message).help(help));
    }

    /// Reads the keys with fixed values.
    fn switches(&mut self) {
        for (key, allowed) in SWITCHES {
            let Some(value) = self.manifest.get(key).map(str::to_lowercase) else { continue };
            if !allowed.contains(&value.as_str()) {
                let help = format!("write {}", allowed.join(" or "));
                self.wrong(Code::BadSwitch, (key, &value), format!("invalid `{key}`: {value}"), help);
            }
            match (key, value.as_str()) {
                ("global", value) => self.manifest.global = value != "false",
                ("security", value) => self.manifest.security = value == "true",
                ("hold", value) => self.manifest.hold = value == "true",
                ("mode", value) => self.manifest.audit = value == "audit",
                ("on_error", "continue") => self.manifest.failure_policy = FailurePolicy::FailOpen,
                _ => {}
            }
        }
        if self.manifest.security {
            self.manifest.failure_policy = FailurePolicy::FailClosed;
        }
    }

    fn requirements(&mut self) {
        // Capability names contain no blanks, so a blank may replace a comma.
        let requirements = self.manifest.get("requirements").unwrap_or("").replace(' ', ",");
        for word in list(&requirements).iter().take(MAX_PROBLEMS) {
            match Capability::ALL.into_iter().find(|capability| capability.name() == word) {
                Some(capability) if self.manifest.requirements.contains(&capability) => {}
                Some(capability) => self.manifest.requirements.push(capability),
                None => {
                    let known = Capability::ALL.map(Capability::name);
                    let what = format!("unknown requirement `{word}`");
                    let problem = self.problem(Code::UnknownRequirement, ("requirements", word), what);
                    let all = format!("the capabilities are {}", known.join(", "));
                    self.misnamed.push(problem.meant_one_of(nearest(word, known), &all));
                }
            }
        }
    }

    fn host_version(&mut self) {
        const KEY: &str = "required_host_version";
        let Some(wanted) = self.manifest.get(KEY).filter(|wanted| !wanted.is_empty()) else { return };
        let own = env!("CARGO_PKG_VERSION");
        let (message, help) = match (semver::Version::parse(wanted), semver::Version::parse(own)) {
            (Ok(needed), Ok(host)) if needed > host => {
                (format!("the script needs host version {wanted}, this host has {own}"), "upgrade the host")
            }
            (Err(error), _) => {
                (format!("invalid version `{wanted}`: {error}"), "write a version such as 1.2.0")
            }
            _ => return,
        };
        let problem = self.problem(Code::HostVersion, (KEY, wanted), message).help(help);
        self.problems.push(problem);
    }

    fn priority(&mut self, constants: &[(String, Json)]) {
        let Some(given) = self.manifest.get("priority").map(str::to_owned) else { return };
        let is_valve = |(name, value): &(String, Json)| name == "Valves" && value.get("priority").is_some();
        let (message, help) = match given.parse::<f64>().ok().filter(|priority| priority.is_finite()) {
            _ if constants.iter().any(is_valve) => (
                "cannot use `priority` of the opening comment: `Valves` has a `priority` as well".into(),
                "remove one of them",
            ),
            Some(priority) => return self.manifest.priority = Some(priority),
            None => (
                format!("invalid `priority`: expected a number, got {given}"),
                "write a number such as 10; lower numbers run first",
            ),
        };
        self.wrong(Code::BadSwitch, ("priority", &given), message, help);
    }

    fn constant(&mut self, name: &str, value: &Json) {
        let manifest = &mut self.manifest;
        match name {
            "tool" => manifest.tool = value.clone(),
            "parameters" => manifest.parameters = value.clone(),
            "actions" => manifest.actions = value.clone(),
            "file_handler" => manifest.file_handler = !value.is_empty(),
            "toggle" => manifest.toggle = !value.is_empty(),
            "on_tool_error" => manifest.on_tool_error = !value.is_empty(),
            "callbacks" => manifest.callbacks = !value.is_empty(),
            "icon" => manifest.icon = value.as_str().map(str::to_owned),
            "Valves" | "UserValves" => match declare(value) {
                Ok(schema) if name == "Valves" => manifest.valves = schema,
                Ok(schema) => manifest.user_valves = Some(schema),
                Err(wrong) => {
                    let (id, path, source) = self.script;
                    let problem = |Misdeclaration { message, path: of, meant }| {
                        let problem = Diagnostic::new(Code::BadValve, id, path, message);
                        let problem = problem.at_path(source, &format!("{name}.{of}")).help(VALVES);
                        match meant {
                            Some((found, instead)) => problem.because(Cause::Key { found, instead }),
                            None => problem,
                        }
                    };
                    self.of_valves.extend(wrong.0.into_iter().map(problem));
                }
            },
            "endpoints" => match endpoints(value) {
                Ok(listed) => manifest.endpoints = listed,
                Err(message) => {
                    let known = ENDPOINTS.join(", ");
                    let help = format!("list some of {known}: const endpoints = [\"chat\", \"embeddings\"];");
                    self.wrong(Code::BadSwitch, ("endpoints", "endpoints"), message, help);
                }
            },
            "ttl" | "every" => {
                let text = value.as_str().ok_or_else(|| format!("`{name}` is {}", value.kind()));
                match text.and_then(|text| parse(text).map_err(|why| format!("`{name}`: {why}"))) {
                    Ok(time) if name == "ttl" => manifest.ttl = Some(time),
                    Ok(time) => manifest.every = Some(time),
                    Err(message) => {
                        let help = format!("{DURATIONS}: const {name} = \"10m\";");
                        self.wrong(Code::BadSchedule, (name, name), message, help);
                    }
                }
            }
            "security" if !manifest.security && !value.is_empty() => self.wrong(
                Code::UnclearGuard,
                (name, name),
                "`const security` does not make this file a guard".into(),
                "write `security: true` in the comment at the start of the file, or rename the constant",
            ),
            _ => {}
        }
    }

    /// Checks the names of the needed valves.
    fn needs(&mut self) {
        let manifest = &self.manifest;
        let is_valve = |name: &str| {
            let users = manifest.user_valves.as_ref().and_then(|valves| valves.field(name));
            manifest.valves.field(name).or(users).is_some()
        };
        // If the valves could not be read, their names are unknown.
        let unknown = manifest.needs.iter().filter(|name| self.of_valves.is_empty() && !is_valve(name));
        let known: Vec<&str> = manifest.valves.fields().iter().map(|field| field.name.as_str()).collect();
        let all = format!("the valves are {}", known.join(", "));
        let problem = |name: &String| {
            let what = format!("unknown valve `{name}` in `needs`");
            let problem = self.problem(Code::BadSwitch, ("needs", name), what);
            problem.meant_one_of(manifest.valves.nearest(name), &all)
        };
        let problems: Vec<Diagnostic> = unknown.take(MAX_PROBLEMS).map(problem).collect();
        self.misnamed.extend(problems);
    }
}

/// The maximum number of texts in `match`: they are searched in each event before any budget applies.
const MAX_MATCHES: usize = 64;

/// Returns the problem of a `match` that would hide events the filter must see, or that has no hook.
pub(crate) fn misplaced_match(
    manifest: &Manifest,
    hooks: &[HookFunction],
    file: &SourceFile,
    source: &str,
) -> Option<Diagnostic> {
    manifest.get("match")?;
    let has = |hook| hooks.iter().any(|function| function.hook == hook);
    let (message, help) = if manifest.matches.len() > MAX_MATCHES {
        ("`match` exceeded its limit of 64 texts", "name fewer")
    } else if manifest.matches.is_empty() {
        (
            "missing texts of `match`",
            "list texts to find in events, separated by commas: match: one text, another",
        )
    } else if !has(Hook::Stream) {
        ("`match` has no effect: missing hook `stream`", "remove `match`, or write `fn stream(event)`")
    } else if manifest.security {
        (
            "`match` is not allowed in a guard (`security: true`): a text that is split over two events \
             would pass",
            "remove one of the two",
        )
    } else if has(Hook::StreamEnd) {
        ("`match` is not allowed with `stream_end`, which needs all events", "remove one of the two")
    } else {
        return None;
    };
    Some(Diagnostic::of(Code::BadMatch, file, message).at_frontmatter(source, "match", "match").help(help))
}

/// The name that stands for the chat endpoints of all protocols.
pub const CHAT: &str = "chat";
/// The endpoints that a filter may list.
pub const ENDPOINTS: [&str; 4] = [CHAT, "embeddings", "images", "completions"];

/// Reads the constant `endpoints`.
fn endpoints(value: &Json) -> Result<Vec<String>, String> {
    let Json::Array(list) = value else {
        return Err(format!("invalid `endpoints`: expected a list of names, got {}", value.kind()));
    };
    let mut listed = Vec::new();
    for item in list.items() {
        match item.as_str().filter(|name| ENDPOINTS.contains(name)) {
            Some(name) => listed.push(name.to_owned()),
            None => {
                let near = item.as_str().and_then(|name| nearest(name, ENDPOINTS));
                let near = optional(near, |near| format!("; did you mean \"{near}\"?"));
                return Err(format!("unknown endpoint {item} in `endpoints`{near}"));
            }
        }
    }
    match listed.is_empty() {
        true => Err("`endpoints` is empty: the filter would never run".into()),
        false => Ok(listed),
    }
}

/// Returns the problems of endpoints other than chats at which no hook of a filter would run.
pub(crate) fn misplaced_endpoints(
    manifest: &Manifest,
    hooks: &[HookFunction],
    file: &SourceFile,
    source: &str,
) -> Option<Diagnostic> {
    let others: Vec<&str> =
        manifest.endpoints.iter().map(String::as_str).filter(|endpoint| *endpoint != CHAT).collect();
    if others.is_empty() || hooks.iter().any(|function| function.hook == Hook::Inlet) {
        return None;
    }
    let message =
        format!("missing hook `inlet`, the only one that runs for the endpoints {}", others.join(", "));
    let help = "write `fn inlet(body)`, or remove those endpoints";
    Some(
        Diagnostic::of(Code::BadSwitch, file, message)
            .at_frontmatter(source, "endpoints", "endpoints")
            .help(help),
    )
}

/// Returns the problem of a `mode` of a tool or an action, whose calls always take effect.
pub(crate) fn misplaced_mode(manifest: &Manifest, file: &SourceFile, source: &str) -> Option<Diagnostic> {
    let mode = manifest.get("mode")?;
    let problem = Diagnostic::of(Code::BadSwitch, file, "`mode` has no effect: only filters have a mode");
    Some(problem.at_frontmatter(source, "mode", mode).help("remove it"))
}

/// Splits a text at commas.
fn list(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

fn declare(value: &Json) -> Result<ValveSchema, DeclarationError> {
    match value {
        Json::Object(_) => ValveSchema::declare(value),
        other => Err(DeclarationError::from(format!(
            "invalid valves: expected a map `#{{ name: default, … }}`, got {}",
            other.kind()
        ))),
    }
}

/// Reads two claims of a text that does not load. The first value is `true` if it claims to be a guard, in any
/// spelling; the second is `true` if it applies to every model.
pub fn claims_of(source: &str) -> (bool, bool) {
    let pairs = frontmatter(source);
    let is_listed_only =
        pairs.iter().any(|(key, value)| key == "global" && value.eq_ignore_ascii_case("false"));
    (Claim::of_broken(source).is_made(), !is_listed_only)
}

/// The shortest and the longest valid duration.
pub(crate) const RANGE: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30 * 86_400)];

/// Parses a duration: numbers with the units `s`, `m`, `h` and `d`, larger units first.
///
/// # Errors
/// Returns the reason if it is not a duration or not between 1 second and 30 days.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a duration");
    let mut rest = text.trim();
    let (mut seconds, mut last) = (0_u64, u64::MAX);
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = rest[..digits].parse().map_err(|_| wrong())?;
        let mut behind = rest[digits..].chars();
        let unit = match behind.next() {
            Some('s') => 1,
            Some('m') => 60,
            Some('h') => 3_600,
            Some('d') => 86_400,
            _ => return Err(wrong()),
        };
        if unit >= last {
            return Err(wrong());
        }
        (rest, last) = (behind.as_str(), unit);
        seconds = seconds.saturating_add(number.saturating_mul(unit));
    }
    let duration = Duration::from_secs(seconds);
    match last {
        u64::MAX => Err(wrong()),
        _ if duration < RANGE[0] || duration > RANGE[1] => {
            Err(format!("{text:?} is not within 1 second to 30 days"))
        }
        _ => Ok(duration),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_numbers_with_units() {
        let seconds = |text: &str| parse(text).map(|duration| duration.as_secs());
        assert_eq!(seconds("10m"), Ok(600));
        assert_eq!(seconds(" 1h30m "), Ok(5_400));
        assert_eq!(seconds("1d2h3m4s"), Ok(93_784));
        assert_eq!(seconds("30d"), Ok(30 * 86_400));
        for text in ["", "10", "m", "10 m", "10min", "-1s", "1.5h", "30m1h", "1m1m", "10ms", "１m", "9é"] {
            assert!(seconds(text).unwrap_err().contains("is not a duration"), "{text}");
        }
        for text in ["0s", "31d", "99999999999999999999d", "18446744073709551615d"] {
            let why = seconds(text).unwrap_err();
            assert!(why.contains("1 second to 30 days") || why.contains("is not a duration"), "{why}");
        }
    }
}
