//! Syntax of Python or JavaScript, and its counterpart here.

use super::codes::Code;
use super::diagnostic::Problem;
use valvehouse_core::words::nearest;

const NOTHING_TO_IMPORT: &str = "remove the import: the host's modules, such as json:: and http::, need \
                                 none; import a file of your own with `import \"lib/words\" as words;`";

/// The same problem described as such a mistake.
pub(super) fn told(problem: &Problem, source: &str) -> Option<Problem> {
    if problem.code == Code::TooComplex {
        return None;
    }
    let foreign = |message: Option<String>, help: &str| {
        let message = message.unwrap_or_else(|| problem.message.clone());
        Some(Problem { code: Code::ForeignSyntax, message, ..problem.clone() }.help(help))
    };
    let line = problem.excerpt.trim_start();
    if ["def ", "class ", "async def", "from pydantic", "@"].iter().any(|word| line.starts_with(word)) {
        return foreign(
            Some("cannot read Python: a script is written in Rhai".into()),
            "write a hook as `fn inlet(body) { … }` at the top level, a tool as `fn handler(args) { … }`; \
             docs/guide describes how to port a filter",
        );
    }
    if ["function ", "export ", "var "].iter().any(|word| line.starts_with(word)) {
        return foreign(
            Some("cannot read JavaScript: a script is written in Rhai".into()),
            "write a hook as `fn inlet(body) { … }` at the top level, a variable as `let x = 1;`",
        );
    }
    if is_python_import(problem, source) {
        return foreign(None, NOTHING_TO_IMPORT);
    }
    if let Some(help) = of_name(problem).or_else(|| of_message(problem)) {
        return foreign(None, help);
    }
    if problem.message.starts_with("undefined variable") {
        return None;
    }
    let (what, help) = of_place(problem)?;
    foreign(what.map(str::to_owned), help)
}

/// Returns `true` if the statement that ends at a problem is Python's `import x`: the parser complains where
/// the next one begins.
fn is_python_import(problem: &Problem, source: &str) -> bool {
    let until = source.lines().take(problem.line.unwrap_or(0)).filter(|line| !line.trim().is_empty());
    let mut lines = until.collect::<Vec<_>>().into_iter().rev().take(2);
    lines.any(|line| {
        let line = line.trim_start();
        (line.starts_with("import ") || line.starts_with("from ")) && !line.contains(['"', ';', '('])
    })
}

fn of_message(problem: &Problem) -> Option<&'static str> {
    let text = problem.message.as_str();
    if text.starts_with("invalid character: '") {
        return Some("write a text in double quotes or backticks; single quotes are for one character");
    }
    match text {
        "'#' is a reserved symbol" => Some("write a comment with `//`"),
        "unexpected 'try'" => Some("`try` has no value; declare the variable before it and set it inside"),
        "unknown operator: '?'" => {
            Some("write `if a { b } else { c }`, also as a value; `a ?? b` is `b` if `a` is ()")
        }
        "'++' is a reserved symbol" | "unknown operator: '++'" => Some("write `x += 1`"),
        "'===' is a reserved symbol" => Some("write `==`"),
        "'!==' is a reserved symbol" => Some("write `!=`"),
        "'var' is a reserved keyword" => Some("declare a variable with `let`"),
        "'null' is a reserved keyword" | "'nil' is a reserved keyword" => Some("write `()` for no value"),
        "'is' is a reserved keyword" => Some("write `==`; `()` stands for no value, as in `x == ()`"),
        "'async' is a reserved keyword" | "'await' is a reserved keyword" => {
            Some("write `fn`; functions of the host wait without `await`")
        }
        "'new' is a reserved keyword" => Some("write a map, `#{ key: value }`; Rhai has no classes"),
        "'with' is a reserved keyword" => {
            Some("write files::read(path), which returns the text and needs no `open` or `close`")
        }
        _ => None,
    }
}

/// Returns the counterpart of another language's word.
fn of_name(problem: &Problem) -> Option<&'static str> {
    let help = match problem.message.strip_prefix("undefined variable: ")? {
        "null" | "None" | "nil" | "undefined" | "none" => "write `()` for no value",
        "True" | "False" => "write `true` and `false`",
        "elif" => "write `else if`",
        "self" => "remove `self`: a hook gets its value as the first parameter, and its settings as `valves`",
        "csv" | "json" | "jwt" | "time" | "random" | "regex" | "text" | "hash" | "base64" | "url"
        | "html" => "write `::` before a function of a module, as in json::stringify(value)",
        "JSON" => "write json::parse(text) and json::stringify(value)",
        "re" => "write regex::, as in regex::find_all(text, pattern)",
        "requests" | "httpx" | "fetch" | "urllib" => {
            "write http::get(url), with `requirements: http` in the opening comment"
        }
        "os" => "write env::get(name) for environment variables and files::read(path) for files",
        "console" | "logger" | "logging" => "write to the log with print(text) or log::info(text)",
        "math" | "Math" => "`x.sqrt()`, `x.floor()`, `x.abs()`, PI()",
        "datetime" | "Date" => "time::unix(), time::iso(), time::format(unix, \"%Y-%m-%d\")",
        "not" => "write `!`, as in `!(a in b)`",
        _ => return None,
    };
    Some(help)
}

/// Explains a problem by the words around its place: the message, where the parser does not know it, and the
/// hint.
fn of_place(problem: &Problem) -> Option<(Option<&'static str>, &'static str)> {
    let at = problem.excerpt.chars().skip(problem.column? - 1).collect::<String>();
    let before = problem.excerpt.chars().take(problem.column? - 1).collect::<String>();
    let before = before.trim_end();
    let line = problem.excerpt.trim();
    let told = |what, help| Some((Some(what), help));
    match at.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next()? {
        word if word.starts_with("except") => {
            return told("unknown keyword `except`", "write `catch (e) { … }`");
        }
        "for" if before.contains('[') => {
            return told("list comprehensions are not supported", "write `list.map(|x| x * 2)`");
        }
        "and" => return told("unknown operator `and`", "write `&&`"),
        "or" => return told("unknown operator `or`", "write `||`; `a ?? b` is `b` if `a` is ()"),
        "not" => return told("unknown operator `not`", "write `!`, as in `!(a in b)`"),
        _ if before.ends_with("not") || at.contains("\" not in ") => {
            return told("unknown operator `not`", "write `!`, as in `!(a in b)`");
        }
        _ if before.ends_with("elif") => {
            return told("unknown keyword `elif`", "write `else if`");
        }
        _ if at.starts_with('"') && ["if", "while"].iter().any(|word| ends_with_word(before, word)) => {
            return told(
                "invalid condition: expected true or false, got a text",
                "compare it: `if text != \"\" { … }`",
            );
        }
        "if" if !before.is_empty() && at.contains(" else ") && !line.starts_with("if ") => {
            return told(
                "the condition must stand before its value",
                "write `let x = if condition { a } else { b };`",
            );
        }
        _ if ends_with_word(before, "lambda") || at.starts_with("lambda ") => {
            return told("unknown keyword `lambda`", "write a closure as `|x| x * 2`");
        }
        _ if before.contains("for ") && problem.message.contains("'in'") && at.starts_with(',') => {
            return told(
                "`for` needs brackets around two variables",
                "write `for (item, index) in list { … }`",
            );
        }
        _ if at.starts_with('"') && ends_with_word(before, "f") => {
            return told(
                "unknown prefix `f` of a text",
                "use backticks for a text with values: `Hello ${name}`",
            );
        }
        _ if before.ends_with("raise") => {
            return told("unknown keyword `raise`", "write `throw`");
        }
        _ if line.starts_with("import ") => return Some((None, NOTHING_TO_IMPORT)),
        "fn" if before.ends_with("async") => {
            return told("unknown keyword `async`", "write `fn`; functions of the host wait without `await`");
        }
        _ => {}
    }
    let begins = |words: &[&str]| words.iter().any(|word| line.starts_with(word));
    if begins(&["fn ", "if ", "for ", "while ", "else", "try"]) && line.ends_with(':') {
        return told(
            "`:` cannot start a block",
            "write a block in braces: `if a { … }`, `fn inlet(body) { … }`",
        );
    }
    let bracket = before.rfind('[').filter(|open| !before[*open..].contains([']', '{', '"']));
    if bracket.is_some() && (at.starts_with(':') || at.starts_with(']') && before.ends_with(':')) {
        return told(
            "`:` is not a range",
            "write `list[1..3]`, `list.tail(4)` for the last four elements, `list.extract(start, count)` or \
             `text.sub_string(start, count)`",
        );
    }
    let opened = before.rfind('{').filter(|brace| !before[..*brace].ends_with('#'));
    if at.starts_with(':') && opened.is_some() {
        return told("`{` starts a block, not a map", "write a map as `#{ key: value }`");
    }
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    let word = before.rsplit_once(|letter| !is_part(letter)).map_or(before, |(_, word)| word);
    let is_given_a_value = at.trim_start_matches(is_part).trim_start().starts_with("= ");
    if (word == "var" || nearest(word, ["let"]).is_some()) && is_given_a_value {
        return told("invalid declaration of a variable", "write `let name = value;`");
    }
    if at.starts_with("=>") {
        return told("invalid closure: `=>` is only for `switch`", "write a closure as `|x| x * 2`");
    }
    if problem.message.starts_with("'===' is") || problem.message.starts_with("'!==' is") {
        return told(
            "unknown operator: there is one kind of comparison",
            "write `==` or `!=`; `()` stands for no value",
        );
    }
    None
}

/// Returns `true` if a text ends with this word, and not with a longer one.
fn ends_with_word(text: &str, word: &str) -> bool {
    text.strip_suffix(word)
        .is_some_and(|rest| !rest.ends_with(|letter: char| letter.is_alphanumeric() || letter == '_'))
}

/// Returns the counterpart of another language's function.
pub(crate) fn function(name: &str) -> Option<&'static str> {
    Some(match name {
        "append" | "add" => "write `push(value)` to add one element, `append(array)` to add all",
        "join" => "text::join(array, separator)",
        "first" => "write `[0]` for the first element",
        "items" | "entries" => "write `for key in map { let value = map[key]; }`",
        "extend" | "concat" => "write `append(array)` or `+`",
        "update" | "assign" => "`mixin(map)`",
        "startswith" | "startsWith" => "`starts_with(text)`",
        "endswith" | "endsWith" => "`ends_with(text)`",
        "lower" | "toLowerCase" => "`to_lower()`",
        "upper" | "toUpperCase" => "`to_upper()`",
        "strip" => "text::trim(text)",
        "includes" | "has" | "has_key" => "write `contains(value)` or `value in list`",
        "length" | "size" => "`len()`",
        "substring" | "substr" | "slice" => "write `sub_string(start, length)` or `[start..end]`",
        "str" | "toString" => "write `to_string()`, or `${…}` within backticks",
        "format" => "use backticks for a text with values: `Hello ${name}`",
        "range" => "write `0..n`, which counts from 0 to n - 1: `for i in 0..n { … }`",
        "sorted" => {
            "write `list.order()` for a sorted copy, or `list.order(|a, b| a.x - b.x)` with an order of \
             your own"
        }
        "sum" => "`list.reduce(|sum, x| (sum ?? 0) + x)`",
        "enumerate" => "write `for (item, index) in list { … }`",
        "isinstance" | "type" | "typeof" => {
            "write `type_of(value)`, which returns a text: \"string\", \"array\", \"map\" …"
        }
        "any" => "`list.some(|x| …)`",
        "reversed" => "write `let back = list.copy(); back.reverse();`",
        "list" => "write an array as `[a, b]`; `map.keys()` and `text.split(\",\")` return arrays",
        "dict" => "write a map as `#{ key: value }`",
        "bool" => "compare it: `x != ()`, `x != \"\"`, `!empty(x)`",
        "hasattr" => "`\"key\" in map`",
        "getattr" => "`map[\"key\"] ?? value`",
        "open" => "write files::read(path), with `requirements: files` in the opening comment",
        "sleep" => "time::sleep(milliseconds)",
        "gather" => "parallel([|| …, || …])",
        "create_task" => "write parallel([|| …, || …]) for calls that wait at the same time",
        "int" | "to_int" => "`parse_int(text)`",
        "float" | "to_float" => "`parse_float(text)`",
        _ => return None,
    })
}
