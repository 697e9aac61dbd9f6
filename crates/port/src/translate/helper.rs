//! Helper functions of a draft, for operations that have no short form in Rhai.

/// A helper function of the draft.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Helper {
    CheckStatus,
    Elements,
    Padded,
    ReadAll,
    Reversed,
    SelectOne,
    SendLine,
    Slice,
    Thousands,
    ToFloat,
    ToInteger,
    Total,
    Unique,
    Best,
}

impl Helper {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::CheckStatus => "check_status",
            Self::Elements => "elements",
            Self::Padded => "padded",
            Self::ReadAll => "read_all",
            Self::Reversed => "reversed",
            Self::SelectOne => "select_one",
            Self::SendLine => "send_line",
            Self::Slice => "slice",
            Self::Thousands => "thousands",
            Self::ToFloat => "float_of",
            Self::ToInteger => "integer_of",
            Self::Total => "total",
            Self::Unique => "unique",
            Self::Best => "best",
        }
    }

    pub(crate) fn code(self) -> &'static str {
        match self {
            Self::CheckStatus => {
                "// Throws if a service answered with an error.
fn check_status(answer) {
    if answer.status >= 400 {
        throw #{ status: 502, message: `the service answered with HTTP status ${answer.status}` };
    }
}"
            }
            Self::Elements => {
                "// What Python iterates over: the elements of a list, the characters of a text, the keys of a map.
fn elements(value) {
    if type_of(value) == \"string\" { return value.to_chars().map(|letter| `${letter}`); }
    if type_of(value) == \"map\" { value.keys() } else { value }
}"
            }
            Self::Padded => {
                "// A text filled up to a width: on the left, or on both sides with `^`, or on the right with `<`.
fn padded(value, width, fill, side) {
    let text = `${value}`;
    while text.len() < width {
        if side == \"<\" || (side == \"^\" && text.len() % 2 == 0) { text += fill; } else { text = fill + text; }
    }
    text
}"
            }
            Self::ReadAll => {
                "// The rest of a streamed answer as one text.
fn read_all(lines) {
    let text = \"\";
    for line in lines {
        text += line + \"\\n\";
    }
    text
}"
            }
            Self::Reversed => {
                "// A list or text from its end to its beginning.
fn reversed(list) {
    if type_of(list) == \"map\" { list = list.keys(); }
    let all = if type_of(list) == \"string\" { list.to_chars() } else { [] + list };
    all.reverse();
    if type_of(list) == \"string\" { text::join(all, \"\") } else { all }
}"
            }
            Self::SelectOne => {
                "// The first element of a page that a selector matches; `()` if there is none.
fn select_one(page, selector) {
    let found = html::select(page, selector);
    if found.len() > 0 { found[0] } else { () }
}"
            }
            Self::SendLine => {
                "// Sends a line of a streamed answer: an event of an OpenAI-compatible service, or text.
fn send_line(line) {
    if type_of(line) == \"string\" && line.starts_with(\"data:\") {
        let data = text::trim(line.sub_string(5));
        if data != \"\" && data != \"[DONE]\" {
            let delta = json::parse(data).choices?[0]?.delta;
            if delta != () { yield_piece(delta); }
        }
    } else if !empty(line) {
        yield_piece(line);
    }
}"
            }
            Self::Slice => {
                "// Part of a list or text, as in Python: negative places count from the end.
fn slice(value, first, last) {
    let length = value.len();
    let start = if first == () { 0 } else if first < 0 { max(length + first, 0) } else { min(first, length) };
    let end = if last == () { length } else if last < 0 { length + last } else { min(last, length) };
    let count = max(end - start, 0);
    if type_of(value) == \"string\" { value.sub_string(start, count) } else { value.extract(start, count) }
}"
            }
            Self::Thousands => {
                "// A number with a comma between thousands.
fn thousands(number) {
    let parts = `${number}`.split(\".\");
    let whole = parts[0];
    let sign = if whole.starts_with(\"-\") { \"-\" } else { \"\" };
    let digits = text::strip_prefix(whole, \"-\");
    let out = \"\";
    while digits.len() > 3 {
        out = \",\" + digits.sub_string(digits.len() - 3) + out;
        digits = digits.sub_string(0, digits.len() - 3);
    }
    sign + digits + out + if parts.len() > 1 { \".\" + parts[1] } else { \"\" }
}"
            }
            Self::ToFloat => {
                "// A number or a text as a number with a point.
fn float_of(value) {
    if type_of(value) == \"string\" { parse_float(text::trim(value)) } else { value.to_float() }
}"
            }
            Self::ToInteger => {
                "// A number or a text as an integer.
fn integer_of(value) {
    if type_of(value) == \"string\" { parse_int(text::trim(value)) } else if type_of(value) == \"bool\" { if value { 1 } else { 0 } } else { value.to_int() }
}"
            }
            Self::Total => {
                "// The sum of numbers.
fn total(list) {
    let sum = 0;
    for number in list {
        sum += number;
    }
    sum
}"
            }
            Self::Unique => {
                "// A list without repeated elements.
fn unique(list) {
    let seen = [];
    for one in list {
        if !(one in seen) { seen.push(one); }
    }
    seen
}"
            }
            Self::Best => {
                "// The element with the largest key, or with `-1` the smallest; `()` if there is none.
fn best(list, key, sign) {
    let found = ();
    let value = ();
    for one in list {
        let other = key.call(one);
        if value == () || (sign > 0 && other > value) || (sign < 0 && other < value) {
            found = one;
            value = other;
        }
    }
    found
}"
            }
        }
    }
}
