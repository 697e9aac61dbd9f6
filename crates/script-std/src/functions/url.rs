//! `url::…`: encodes, parses and builds URLs.

use super::argument::{AnyMap, RhaiResultOf, fail, unfit};
use super::output::{Text, check_size, check_walk};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use rhai::plugin::*;
use rhai::{Array, Map};
use std::collections::BTreeMap;
use valvehouse_dialect::value::json_of;
use valvehouse_json::Json;

/// All characters except those that RFC 3986 calls unreserved.
const COMPONENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

#[export_module]
pub(super) mod functions {
    /// Percent-encodes a text as one part of a URL: `"a b/c"` is `"a%20b%2Fc"`.
    #[rhai_fn(return_raw)]
    pub fn encode(text: &str) -> RhaiResultOf<String> {
        check_walk(text, 1)?;
        let mut encoded = Text::new("url::encode");
        encode_into(&mut encoded, text)?;
        Ok(encoded.finish())
    }

    /// Decodes percent-encoding. A `+` and an incomplete `%` stay unchanged.
    #[rhai_fn(return_raw)]
    pub fn decode(text: &str) -> RhaiResultOf<String> {
        check_size("url::decode", text.len())?;
        let decoded = percent_decode_str(text).decode_utf8();
        let decoded = decoded.map_err(|_| fail("url::decode", "the decoded bytes are not UTF-8 text"))?;
        Ok(decoded.into_owned())
    }

    /// Parses a URL and returns its parts: `scheme`, `username`, `host`, `port`, `path`, `query`, `fragment`.
    /// Missing parts are `()`; the port defaults to that of the scheme. `query` is a map of decoded texts, with
    /// an array for a name that occurs more than once.
    #[rhai_fn(return_raw)]
    pub fn parse(text: &str) -> RhaiResultOf<Map> {
        check_size("url::parse", text.len().saturating_mul(3))?;
        let shown = valvehouse_dialect::call::redaction::excerpt(text);
        let url =
            ::url::Url::parse(text).map_err(|error| fail("url::parse", format!("`{shown}`: {error}")))?;
        let some = |part: Option<&str>| part.map_or(Dynamic::UNIT, Into::into);
        let parts = [
            ("scheme", url.scheme().into()),
            ("username", some(Some(url.username()).filter(|name| !name.is_empty()))),
            ("host", some(url.host_str())),
            ("port", url.port_or_known_default().map_or(Dynamic::UNIT, |port| i64::from(port).into())),
            ("path", url.path().into()),
            ("query", query_map(&url).into()),
            ("fragment", some(url.fragment())),
        ];
        Ok(parts.into_iter().map(|(name, part)| (name.into(), part)).collect())
    }

    /// Encodes a map as the query of a URL: `#{ a: 1, b: "x y" }` is `"a=1&b=x%20y"`. An array repeats its
    /// name for each element; `()` is omitted.
    #[rhai_fn(return_raw)]
    pub fn query(map: AnyMap) -> RhaiResultOf<String> {
        let Ok(Json::Object(object)) = json_of(&map) else {
            return Err(unfit("url::query", "map", "a map", &map));
        };
        let mut query = Text::new("url::query");
        for (name, value) in object.entries() {
            let values = if value.as_array().is_some() { value.items() } else { vec![value] };
            for value in values.iter().filter(|value| !value.is_null()) {
                push_pair(&mut query, &name, value)?;
            }
        }
        Ok(query.finish())
    }
}

fn query_map(url: &::url::Url) -> Map {
    let mut values = BTreeMap::<_, Array>::new();
    for (name, value) in url.query_pairs() {
        values.entry(name.as_ref().into()).or_default().push(value.as_ref().into());
    }
    let single = |values: Array| match <[Dynamic; 1]>::try_from(values) {
        Ok([value]) => value,
        Err(values) => values.into(),
    };
    values.into_iter().map(|(name, values)| (name, single(values))).collect()
}

fn push_pair(query: &mut Text, name: &str, value: &Json) -> RhaiResultOf<()> {
    if !query.is_empty() {
        query.push("&")?;
    }
    encode_into(query, name)?;
    query.push("=")?;
    match value {
        Json::Text(text) => encode_into(query, text),
        Json::Array(_) | Json::Object(_) => Err(fail(
            "url::query",
            format!("`{name}` must be a text, number or boolean, not {}", value.kind()),
        )),
        plain => encode_into(query, &plain.to_string()),
    }
}

fn encode_into(into: &mut Text, text: &str) -> RhaiResultOf<()> {
    utf8_percent_encode(text, COMPONENT).try_for_each(|part| into.push(part))
}

#[cfg(test)]
mod tests {
    use crate::functions::tests::{gives, refuses};

    #[test]
    fn parts_are_encoded_and_decoded() {
        gives(&[
            (r#"url::encode("a b/ü~.-_&")"#, r#""a%20b%2F%C3%BC~.-_%26""#),
            (r#"url::decode("a%20b%2F%C3%BC+%zz%")"#, r#""a b/ü+%zz%""#),
            (
                r#"url::query(#{ a: 1, b: "x y", c: ["1", 2], d: (), e: true, f: 1.5 })"#,
                r#""a=1&b=x%20y&c=1&c=2&e=true&f=1.5""#,
            ),
            ("url::query(#{})", r#""""#),
        ]);
        refuses(&[
            (r#"url::decode("%ff")"#, "not UTF-8 text"),
            ("url::query([1])", "`map` must be a map, not array"),
            ("url::query(#{ a: #{} })", "`a` must be a text, number or boolean, not object"),
            (r#"url::encode(text::replace(big(3_000_000), "x", " "))"#, "at most 8 MiB"),
        ]);
    }

    #[test]
    fn urls_are_parsed() {
        let whole = r#"{"fragment":"top","host":"example.com","path":"/x/y","port":8080,"query":{"a":["1","3"],"b":"x y"},"scheme":"https","username":"ann"}"#;
        let short = r#"{"fragment":null,"host":null,"path":"a@b.c","port":null,"query":{},"scheme":"mailto","username":null}"#;
        gives(&[
            (r#"url::parse("https://ann:pw@Example.com:8080/x/y?a=1&b=x+y&a=3#top")"#, whole),
            (r#"url::parse("mailto:a@b.c")"#, short),
            (r#"url::parse("http://[::1]/").port"#, "80"),
        ]);
        refuses(&[(r#"url::parse("nonsense")"#, "`nonsense`: relative URL without a base")]);
    }
}
