//! Functions of other languages, and their counterparts in Rhai.

/// Returns a hint for a function of another language.
pub(crate) fn function(name: &str) -> Option<&'static str> {
    Some(match name {
        "add" => "write `push(value)` to add one element, `append(array)` to add all",
        "first" => "write `[0]` for the first element",
        "entries" => "write `for (key, value) in map { … }`",
        "concat" => "write `append(array)` or `+`",
        "assign" => "write `mixin(map)`",
        "startsWith" => "write `starts_with(text)`",
        "endsWith" => "write `ends_with(text)`",
        "toLowerCase" => "write `to_lower()`",
        "toUpperCase" => "write `to_upper()`",
        "trimStart" | "trimEnd" => "write text::trim(text)",
        "indexOf" | "search" => {
            "write `text.index_of(\"a\")`, which is -1 if it is missing; a list is searched by `list.find(|x| x.id == 1)`"
        }
        "findall" => "write regex::find_all(text, pattern)",
        "isnumeric" | "isdecimal" => "write `isdigit()`",
        "sort_by" => "write `list.order(|x| x.key)`",
        "forEach" => "write `for item in list { … }`",
        "deepcopy" => "write `value.copy()`",
        "tuple" => "write a list: `[1, 2]`",
        "input" => "write `ask(\"question\")`",
        "ord" | "chr" => "write `\"a\".to_chars()`, or compare the texts",
        "includes" | "has" | "has_key" => "write `contains(value)` or `value in list`",
        "length" | "size" => "write `len()`",
        "remove" => {
            "write `list.retain(|x| x != value)` for a value; `list.remove(index)` removes the element at an index"
        }
        "count" => "write `len()` for all elements, `list.filter(|x| x == value).len()` for some",
        "status_code" | "statusCode" => "write `status`",
        "index" | "rindex" => "write `index_of(value)`, which is -1 if it is missing",
        "tail" => "write `list.extract(-n)` for the last n elements of a list; `tail(n)` is of messages",
        "toFixed" => "write text::fixed(number, digits)",
        "substring" | "substr" => "write `sub_string(start, length)` or `[start..end]`",
        "slice" => "write `extract(start..end)`",
        "encode" | "decode" => "remove it: texts are UTF-8; bytes become a text by `bytes.text()`",
        "toString" => "write `to_string()`, or `${…}` within backticks",
        "format" => "use backticks for a text with values: `Hello ${name}`",
        "isinstance" | "type" | "typeof" => {
            "write `type_of(value)`, which returns a text: \"string\", \"array\", \"map\" …"
        }
        "padStart" => "write `text.rjust(width)`",
        "padEnd" => "write `text.ljust(width)`",
        "reverse" => "write `reversed(text)`",
        _ if name == "Error" || name.ends_with("Exception") || name.ends_with("Error") => {
            "write `throw \"why\"`; in a hook, `deny(\"why\", 403)` refuses the request"
        }
        "dict" => "write a map as `#{ key: value }`",
        "hasattr" => "`\"key\" in map`",
        "getattr" => "write `map[\"key\"] ?? value`",
        "open" => "write files::read(path), with `requirements: files` in the opening comment",
        "sleep" => "write time::sleep(milliseconds)",
        "gather" => "write parallel([|| …, || …])",
        "create_task" => "write parallel([|| …, || …]) for calls that wait at the same time",
        "to_int" => "write `int(x)`",
        "to_float" => "write `float(x)`",
        "rsplit" => "write `let parts = text.split(\":\");`, whose last part is `parts.pop()`",
        _ => return None,
    })
}

/// Returns the function that does the same with the same arguments as a function of another language.
pub(crate) fn renamed(name: &str) -> Option<&'static str> {
    Some(match name {
        "startsWith" => "starts_with",
        "endsWith" => "ends_with",
        "toLowerCase" => "to_lower",
        "toUpperCase" => "to_upper",
        "includes" | "has_key" => "contains",
        "length" | "size" => "len",
        "toString" => "to_string",
        "substr" => "sub_string",
        _ => return None,
    })
}
