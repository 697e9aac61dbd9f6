//! Helper functions of a draft, for operations that have no short form in Rhai.

/// A helper function of the draft.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Helper {
    Capitalized,
    CheckStatus,
    Count,
    Divided,
    Elements,
    FoundAll,
    FromPairs,
    LastIndex,
    Padded,
    ParseTime,
    ReadAll,
    Required,
    Reversed,
    Rounded,
    SelectOne,
    SendLine,
    ServiceStatus,
    ShowPage,
    Slice,
    Thousands,
    TitleCase,
    ToFloat,
    ToInteger,
    Total,
    Unique,
    Best,
}

impl Helper {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Capitalized => "capitalized",
            Self::CheckStatus => "check_status",
            Self::Count => "count_of",
            Self::Divided => "divided",
            Self::Elements => "elements",
            Self::FoundAll => "found_all",
            Self::FromPairs => "from_pairs",
            Self::LastIndex => "last_index_of",
            Self::Padded => "padded",
            Self::ParseTime => "parse_time",
            Self::ReadAll => "read_all",
            Self::Required => "required",
            Self::Reversed => "reversed",
            Self::Rounded => "rounded",
            Self::SelectOne => "select_one",
            Self::SendLine => "send_line",
            Self::ServiceStatus => "service_status",
            Self::ShowPage => "show_page",
            Self::Slice => "slice",
            Self::Thousands => "thousands",
            Self::TitleCase => "title_case",
            Self::ToFloat => "float_of",
            Self::ToInteger => "integer_of",
            Self::Total => "total",
            Self::Unique => "unique",
            Self::Best => "best",
        }
    }

    pub(crate) fn code(self) -> &'static str {
        match self {
            Self::Capitalized => {
                "// A text with its first letter in upper case, and the others in lower case.
fn capitalized(text) {
    text.sub_string(0, 1).to_upper() + text.sub_string(1).to_lower()
}"
            }
            Self::CheckStatus => {
                "// Throws if a service answered with an error.
fn check_status(answer) {
    if answer.status >= 400 {
        throw #{ status: 502, message: `the service answered with HTTP status ${answer.status}` };
    }
}"
            }
            Self::Count => {
                "// How often a text or a list contains a value.
fn count_of(value, part) {
    if type_of(value) == \"string\" { value.split(part).len() - 1 } else { value.filter(|one| one == part).len() }
}"
            }
            Self::Divided => {
                "// A quotient, which throws an error for a division by zero.
fn divided(number, divisor) {
    if divisor == 0 { throw #{ status: 500, message: \"division by zero\" }; }
    number.to_float() / divisor
}"
            }
            Self::Elements => {
                "// What Python iterates over: the elements of a list, the characters of a text, the keys of a map.
fn elements(value) {
    if type_of(value) == \"string\" { return value.to_chars().map(|letter| `${letter}`); }
    if type_of(value) == \"map\" { value.keys() } else { value }
}"
            }
            Self::FoundAll => {
                "// All matches of a pattern: whole matches, or the groups if the pattern has some.
fn found_all(text, pattern) {
    regex::captures_all(text, pattern).map(|groups| {
        if groups.len() == 1 { groups[0] } else if groups.len() == 2 { groups[1] } else { groups.extract(1) }
    })
}"
            }
            Self::FromPairs => {
                "// A map of pairs, each a key and a value.
fn from_pairs(pairs) {
    if type_of(pairs) == \"map\" { return pairs.copy(); }
    let map = #{};
    for pair in pairs {
        map[`${pair[0]}`] = pair[1];
    }
    map
}"
            }
            Self::LastIndex => {
                "// The last place of a part in a text, or -1.
fn last_index_of(text, part) {
    let parts = text.split(part);
    if parts.len() == 1 { -1 } else { text.len() - parts[-1].len() - part.len() }
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
            Self::ParseTime => {
                "// The seconds since 1970 of a time such as `2026-11-28T10:30:00Z`, in UTC unless it has another zone.
fn parse_time(text) {
    text = regex::replace(text::replace(text, \" \", \"T\"), `Z$`, \"+00:00\");
    let day = if text.contains(\"T\") { \"%Y-%m-%dT%H:%M\" } else { \"%Y-%m-%d\" };
    let seconds = if regex::is_match(text, `T\\d\\d:\\d\\d:`) { \":%S%.f\" } else { \"\" };
    let zone = if regex::is_match(text, `T.*[+-]\\d\\d:\\d\\d$`) { \"%:z\" } else { \"\" };
    time::parse(text, day + seconds + zone)
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
            Self::Required => {
                "// The value of a key, which throws an error if the key is missing.
fn required(map, key) {
    if !(key in map) { throw #{ status: 500, message: `missing key ${key}` }; }
    map[key]
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
            Self::Rounded => {
                "// The nearest integer, and the even one of two that are equally near.
fn rounded(number) {
    let near = number.to_float().round().to_int();
    if (number - near).abs() == 0.5 && near % 2 != 0 { near - number.sign() } else { near }
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
            let event = json::parse(data);
            if !empty(event.choices) { yield_piece(event); }
        }
    } else if !empty(line) {
        yield_piece(line);
    }
}"
            }
            Self::ServiceStatus => {
                "// The HTTP status in the error of `check_status`, or the status of another error.
fn service_status(error) {
    let found = regex::captures(error.message, `HTTP status (\\d+)`);
    if found == () { error.status } else { parse_int(found[1]) }
}"
            }
            Self::ShowPage => {
                "// Shows an HTML page to the user. The model receives a note.
fn show_page(page) {
    emit(#{ type: \"html\", data: #{ content: page } });
    \"The result is shown to the user.\"
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
            Self::TitleCase => {
                "// A text with the first letter of each word in upper case, and the others in lower case.
fn title_case(text) {
    regex::replace(text, `\\p{L}+`, |word| word[0].sub_string(0, 1).to_upper() + word[0].sub_string(1).to_lower())
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
