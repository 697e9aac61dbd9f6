//! Functions of other languages, and their counterparts in Rhai.

/// Returns a hint for a function of another language.
pub(crate) fn function(name: &str) -> Option<&'static str> {
    Some(match name {
        "append" | "add" => "write `push(value)` to add one element, `append(array)` to add all",
        "join" => "write text::join(array, separator)",
        "first" => "write `[0]` for the first element",
        "items" | "entries" => "write `for key in map { let value = map[key]; }`",
        "extend" | "concat" => "write `append(array)` or `+`",
        "update" | "assign" => "write `mixin(map)`",
        "startswith" | "startsWith" => "write `starts_with(text)`",
        "endswith" | "endsWith" => "write `ends_with(text)`",
        "lower" | "toLowerCase" => "write `to_lower()`",
        "upper" | "toUpperCase" => "write `to_upper()`",
        "strip" | "lstrip" | "rstrip" | "trimStart" | "trimEnd" => "write text::trim(text)",
        "title" | "capitalize" => {
            "write the first letter in upper case: `text[0..1].to_upper() + text.sub_string(1)`"
        }
        "find" | "indexOf" | "search" => {
            "write `text.index_of(\"a\")`, which is -1 if it is missing; a list is searched by `list.find(|x| x.id == 1)`"
        }
        "findall" => "write regex::find_all(text, pattern)",
        "isdigit" | "isnumeric" => "write regex::is_match(text, \"^[0-9]+$\")",
        "isalpha" | "isalnum" => "write regex::is_match(text, \"^[A-Za-z0-9]+$\")",
        "sorted" | "sort_by" => "write `list.order(|a, b| a.x - b.x)`",
        "zip" => "write `for (item, index) in list { let other = others[index]; }`",
        "forEach" => "write `for item in list { … }`",
        "setdefault" => "write `map.ensure(\"key\", value)`",
        "deepcopy" => "write `value.copy()`",
        "splitlines" => "write text::lines(text)",
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
        "removeprefix" => "write text::strip_prefix(text, prefix)",
        "removesuffix" => "write text::strip_suffix(text, suffix)",
        "toFixed" => "write text::fixed(number, digits)",
        "substring" | "substr" => "write `sub_string(start, length)` or `[start..end]`",
        "slice" => "write `extract(start..end)`",
        "encode" | "decode" => "remove it: texts are UTF-8; bytes become a text by `bytes.text()`",
        "str" | "toString" => "write `to_string()`, or `${…}` within backticks",
        "format" => "use backticks for a text with values: `Hello ${name}`",
        "enumerate" => "write `for (item, index) in list { … }`",
        "isinstance" | "type" | "typeof" => {
            "write `type_of(value)`, which returns a text: \"string\", \"array\", \"map\" …"
        }
        "rjust" | "ljust" | "zfill" | "padStart" | "padEnd" => {
            "write `text.pad(length, \" \")` in a separate statement, which pads the text at its end"
        }
        _ if name == "Error" || name.ends_with("Exception") || name.ends_with("Error") => {
            "write `throw \"why\"`; in a hook, `deny(\"why\", 403)` refuses the request"
        }
        "any" => "write `list.some(|x| …)`",
        "reversed" => {
            "write `let back = list.copy(); back.reverse();`; of a text, `let back = text.to_chars();`"
        }
        "list" => "write an array as `[a, b]`; `map.keys()` and `text.split(\",\")` return arrays",
        "dict" => "write a map as `#{ key: value }`",
        "bool" => "compare it: `x != ()`, `x != \"\"`, `!empty(x)`",
        "hasattr" => "`\"key\" in map`",
        "getattr" => "write `map[\"key\"] ?? value`",
        "open" => "write files::read(path), with `requirements: files` in the opening comment",
        "sleep" => "write time::sleep(milliseconds)",
        "gather" => "write parallel([|| …, || …])",
        "create_task" => "write parallel([|| …, || …]) for calls that wait at the same time",
        "int" | "to_int" => "write `parse_int(text)`; of a number, `x.to_int()`",
        "float" | "to_float" => "write `parse_float(text)`; of a number, `x.to_float()`",
        "rsplit" => "write `let parts = text.split(\":\");`, whose last part is `parts.pop()`",
        _ => return None,
    })
}
