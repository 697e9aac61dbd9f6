//! Names and modules of Python or JavaScript, and their counterparts here.

use super::cause::Cause;
use super::explanation::Foreign;
use super::finding::Diagnostic;
use crate::declare::hooks;
use valvehouse_core::text::nearest;
use valvehouse_dialect::syntax::ParseFault;
use valvehouse_grants::Capability;
use valvehouse_script_std::engine;

/// Functions of modules of Python and JavaScript, and what to write instead. A module may have several names.
const FUNCTIONS: [(&str, &str, &str); 52] = [
    ("json", "dumps", "json::stringify(value)"),
    ("JSON", "stringify", "json::stringify(value)"),
    ("json", "loads", "json::parse(text)"),
    ("JSON", "parse", "json::parse(text)"),
    ("time", "time", "time::unix()"),
    ("time asyncio", "sleep", "time::sleep(milliseconds)"),
    ("time", "strftime", "time::format(unix, pattern)"),
    ("datetime date", "strftime", "time::format(time::unix(), \"%Y-%m-%d\")"),
    ("datetime date", "now", "time::format(time::unix(), \"%Y-%m-%d %H:%M\")"),
    ("datetime date", "utcnow", "time::format(time::unix(), \"%Y-%m-%d %H:%M\")"),
    ("datetime date", "today", "time::format(time::unix(), \"%Y-%m-%d\")"),
    ("datetime", "datetime", "time::format(time::unix(), \"%Y-%m-%d %H:%M\")"),
    ("Date", "now", "time::unix_ms()"),
    ("random", "randint", "random::int(least, most)"),
    ("random", "random", "random::float()"),
    ("random", "uniform", "least + random::float() * (most - least)"),
    ("uuid", "uuid4", "uuid()"),
    ("base64", "b64encode", "base64::encode(bytes)"),
    ("base64", "b64decode", "base64::decode(text)"),
    ("hashlib", "sha256", "hash::sha256(text)"),
    ("hashlib", "md5", "hash::md5(text)"),
    ("hashlib", "sha1", "hash::digest(\"sha1\", text)"),
    ("hashlib", "sha512", "hash::digest(\"sha512\", text)"),
    ("hmac", "new", "hash::hmac_sha256(key, text)"),
    ("re regex", "sub", "regex::replace(text, pattern, replacement)"),
    ("re regex", "findall", "regex::find_all(text, pattern)"),
    ("re regex", "finditer", "regex::captures_all(text, pattern)"),
    ("re", "search", "regex::find(text, pattern)"),
    ("re", "match", "regex::is_match(text, \"^pattern\")"),
    ("re", "fullmatch", "regex::is_match(text, \"^pattern$\")"),
    ("re", "split", "regex::split(text, pattern)"),
    ("re", "escape", "regex::escape(text)"),
    ("re", "compile", "const PATTERN = `[0-9]+`;"),
    ("requests httpx axios session client", "get", "http::get(url)"),
    ("requests httpx axios session client", "post", "http::post(url, #{ json: data })"),
    ("requests httpx axios session client", "put", "http::put(url, #{ json: data })"),
    ("requests httpx axios session client", "patch", "http::patch(url, #{ json: data })"),
    ("requests httpx axios session client", "delete", "http::delete(url)"),
    ("http", "fetch", "http::get(url)"),
    ("urllib", "parse", "url::encode(text)"),
    ("urllib", "request", "http::get(url)"),
    ("os", "getenv", "env::get(name)"),
    ("os", "environ", "env::get(name)"),
    ("os", "path", "files::exists(path)"),
    ("logger logging console", "debug", "log::debug(text)"),
    ("logger logging console", "info", "log::info(text)"),
    ("logger logging console", "warning", "log::warn(text)"),
    ("logger logging console", "warn", "log::warn(text)"),
    ("logger logging console", "error", "log::error(text)"),
    ("asyncio", "gather", "parallel([|| …, || …])"),
    ("asyncio", "create_task", "after(|| …)"),
    ("copy", "deepcopy", "value.copy()"),
];

/// Functions that take the same arguments in the same order as those of another language.
const SAME_ARGUMENTS: [&str; 6] =
    ["json::stringify", "json::parse", "time::unix", "random::int", "random::float", "base64::encode"];

/// Explains a name of another language.
pub(super) fn of_name(kind: ParseFault<'_>, problem: &Diagnostic) -> Option<Foreign> {
    let ParseFault::UnknownVariable(name) = kind else { return None };
    if let Some(instead) = member_after(problem, name).and_then(|member| elsewhere(name, member)) {
        let module = instead.split("::").next();
        let capability = Capability::ALL.iter().find(|capability| module == Some(capability.name()));
        let found = Foreign::as_parsed(match capability.map(|capability| capability.name()) {
            Some(name) => format!("write `{instead}`, with `requirements: {name}` in the opening comment"),
            None => format!("write `{instead}`"),
        });
        let path = instead.split('(').next().filter(|path| SAME_ARGUMENTS.contains(path));
        return Some(found.because(path.map_or(Cause::Other, |path| Cause::Path(path.into()))));
    }
    let help = match name {
        "null" | "None" | "nil" | "undefined" | "none" => "write `()` for no value",
        "True" | "False" => "write `true` and `false`",
        "elif" => "write `else if`",
        "self" => "remove `self`: a hook gets its value as the first parameter, and its settings as `valves`",
        "JSON" => "write json::parse(text) and json::stringify(value)",
        "re" => "write regex::, as in regex::find_all(text, pattern)",
        "requests" | "httpx" | "fetch" | "urllib" | "axios" => {
            "write http::get(url), with `requirements: http` in the opening comment"
        }
        "os" => "write env::get(name) for environment variables and files::read(path) for files",
        "console" | "logger" | "logging" => "write to the log with print(text) or log::info(text)",
        "Object" => "write `map.keys()`, `map.values()`, `#{}` for an empty map",
        "Array" => "write `[]`; test by `type_of(value) == \"array\"`",
        "math" | "Math" => "write `x.sqrt()`, `x.floor()`, `x.ceiling()`, `x.abs()`, PI()",
        "hashlib" | "hmac" => "write hash::sha256(text), hash::hmac_sha256(key, text)",
        "datetime" | "Date" => "write time::unix(), time::iso(), time::format(unix, \"%Y-%m-%d\")",
        "sys" => "end a hook with `return;`, refuse the request with `deny(\"why\", 403)`",
        "subprocess" => "write shell::run(program), with `requirements: shell` in the opening comment",
        "pathlib" | "Path" => "write files::read(path), with `requirements: files` in the opening comment",
        "not" => "write `!`, as in `!(a in b)`",
        "dict" | "list" | "str" | "int" | "float" | "bool" => {
            "write type_of(value), which returns a text: \"map\", \"array\", \"string\" …"
        }
        _ => return None,
    };
    Some(Foreign::as_parsed(help).because(match name {
        "null" | "nil" | "undefined" | "none" => Cause::written(name, "()"),
        "elif" => Cause::written(name, "else if"),
        "self" if member_after(problem, name) == Some("valves") => Cause::Needless("self."),
        _ => Cause::Other,
    }))
}

/// Returns what to write instead of a function of a module of another language.
fn elsewhere(module: &str, function: &str) -> Option<&'static str> {
    let mut rows = FUNCTIONS.iter().filter(|(_, name, _)| *name == function);
    rows.find(|(modules, ..)| modules.split(' ').any(|name| name == module)).map(|(_, _, instead)| *instead)
}

/// Returns the name after `name.` at the position of a problem.
fn member_after<'a>(problem: &'a Diagnostic, name: &str) -> Option<&'a str> {
    let at = problem.excerpt.char_indices().nth(problem.column? - 1)?.0;
    let rest = problem.excerpt[at..].strip_prefix(name)?.strip_prefix('.')?;
    rest.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next()
}

/// Explains a module of the host before a dot: `http.get(…)`. A parameter of a hook is a variable.
pub(super) fn of_module(kind: ParseFault<'_>, problem: &Diagnostic) -> Option<Foreign> {
    let ParseFault::UnknownVariable(module) = kind else { return None };
    let functions = engine::in_module(module)?;
    let Some(name) = member_after(problem, module) else {
        let is_parameter = hooks::param_names().any(|name| name == module);
        let help = || format!("call a function of the module: {}", some_of(module));
        return (!is_parameter).then(|| Foreign::as_parsed(help()));
    };
    let is_nested = engine::in_module(&format!("{module}::{name}")).is_some();
    let near = match functions.contains_key(name) || is_nested {
        true => Some(name),
        false => nearest(name, functions.keys().map(String::as_str)),
    };
    Some(match near {
        Some(near) => {
            let path = format!("{module}::{near}");
            let help = format!("write `::` before a function of a module: `{path}`");
            Foreign::as_parsed(help).because(Cause::Path(path))
        }
        None => Foreign::as_parsed(format!("write `::` before a function of a module: {}", some_of(module))),
    })
}

/// Returns some of the functions of a module.
pub(crate) fn some_of(module: &str) -> String {
    const SHOWN: usize = 6;
    let mut names: Vec<&str> =
        engine::in_module(module).into_iter().flat_map(|known| known.keys().map(String::as_str)).collect();
    names.sort_unstable();
    let more = if names.len() > SHOWN { " …" } else { "" };
    names.truncate(SHOWN);
    let names: Vec<String> = names.into_iter().map(|name| format!("`{module}::{name}(…)`")).collect();
    format!("{}{more}", names.join(", "))
}
