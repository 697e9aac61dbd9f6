//! Names and modules of Python or JavaScript, and their counterparts here.

use super::finding::Diagnostic;
use crate::{engine, hooks};
use valvehouse_core::text::nearest;

/// Returns a hint for a name of another language.
pub(super) fn of_name(problem: &Diagnostic) -> Option<&'static str> {
    let help = match problem.message.strip_prefix("undefined variable: ")? {
        "null" | "None" | "nil" | "undefined" | "none" => "write `()` for no value",
        "True" | "False" => "write `true` and `false`",
        "elif" => "write `else if`",
        "self" => "remove `self`: a hook gets its value as the first parameter, and its settings as `valves`",
        "JSON" => "write json::parse(text) and json::stringify(value)",
        "re" => "write regex::, as in regex::find_all(text, pattern)",
        "requests" | "httpx" | "fetch" | "urllib" => {
            "write http::get(url), with `requirements: http` in the opening comment"
        }
        "os" => "write env::get(name) for environment variables and files::read(path) for files",
        "console" | "logger" | "logging" => "write to the log with print(text) or log::info(text)",
        "Object" => "write `map.keys()`, `map.values()`, `#{}` for an empty map",
        "Array" => "write `[]`; test by `type_of(value) == \"array\"`",
        "math" | "Math" => "write `x.sqrt()`, `x.floor()`, `x.abs()`, PI()",
        "datetime" | "Date" => "write time::unix(), time::iso(), time::format(unix, \"%Y-%m-%d\")",
        "not" => "write `!`, as in `!(a in b)`",
        "dict" | "list" | "str" | "int" | "float" | "bool" => {
            "write type_of(value), which returns a text: \"map\", \"array\", \"string\" …"
        }
        _ => return None,
    };
    Some(help)
}

/// Functions of modules of Python and JavaScript, and the ones to write instead.
const ELSEWHERE: [(&str, &str); 12] = [
    ("json.dumps", "json::stringify(value)"),
    ("json.loads", "json::parse(text)"),
    ("time.time", "time::unix()"),
    ("time.sleep", "time::sleep(milliseconds)"),
    ("time.strftime", "time::format(unix, pattern)"),
    ("random.randint", "random::int(least, most)"),
    ("random.random", "random::float()"),
    ("base64.b64encode", "base64::encode(bytes)"),
    ("base64.b64decode", "base64::decode(text)"),
    ("regex.sub", "regex::replace(text, pattern, replacement)"),
    ("regex.findall", "regex::find_all(text, pattern)"),
    ("http.fetch", "http::get(url)"),
];

/// Returns a hint for a module of the host before a dot: `http.get(…)`. A parameter of a hook is a variable.
pub(super) fn of_module(problem: &Diagnostic) -> Option<String> {
    let module = problem.message.strip_prefix("undefined variable: ")?;
    let functions = engine::in_module(module)?;
    let at: String = problem.excerpt.chars().skip(problem.column? - 1).collect();
    let Some(rest) = at.strip_prefix(module)?.strip_prefix('.') else {
        let is_parameter = hooks::param_names().any(|name| name == module);
        return (!is_parameter).then(|| format!("call a function of the module: {}", some_of(module)));
    };
    let name = rest.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next()?;
    let known = ELSEWHERE.iter().find(|(foreign, _)| *foreign == format!("{module}.{name}"));
    let nested = engine::in_module(&format!("{module}::{name}")).is_some();
    Some(match known {
        Some((_, instead)) if !functions.contains_key(name) => format!("write `{instead}`"),
        _ if functions.contains_key(name) || nested => {
            format!("write `::` before a function of a module: `{module}::{name}`")
        }
        _ => match nearest(name, functions.keys().map(String::as_str)) {
            Some(near) => format!("write `::` before a function of a module: `{module}::{near}`"),
            None => format!("write `::` before a function of a module: {}", some_of(module)),
        },
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
