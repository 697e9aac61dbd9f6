//! `html::…`: escapes and unescapes HTML, and extracts its text.

use super::argument::RhaiResultOf;
use super::markup;
use super::output::{Text, check_size, check_walk};
use rhai::plugin::*;

#[export_module]
pub(super) mod functions {
    /// The text with `&`, `<`, `>`, `"` and `'` written as entities.
    #[rhai_fn(return_raw)]
    pub fn escape(text: &str) -> RhaiResultOf<String> {
        check_walk(text, 1)?;
        let mut escaped = Text::new("html::escape");
        for part in text.split_inclusive(['&', '<', '>', '"', '\'']) {
            // The last character of the part may have several bytes.
            let last = part.chars().next_back().map_or(0, char::len_utf8);
            let (plain, special) = part.split_at(part.len() - last);
            match special {
                "&" => escaped.push(plain).and_then(|()| escaped.push("&amp;")),
                "<" => escaped.push(plain).and_then(|()| escaped.push("&lt;")),
                ">" => escaped.push(plain).and_then(|()| escaped.push("&gt;")),
                "\"" => escaped.push(plain).and_then(|()| escaped.push("&quot;")),
                "'" => escaped.push(plain).and_then(|()| escaped.push("&#39;")),
                _ => escaped.push(part),
            }?;
        }
        Ok(escaped.finish())
    }

    /// The text with entities (`&amp;`, `&#39;`, `&eacute;`, …) written as characters.
    #[rhai_fn(return_raw)]
    pub fn unescape(text: &str) -> RhaiResultOf<String> {
        check_size("html::unescape", text.len())?;
        check_walk(text, 2)?;
        Ok(html_escape::decode_html_entities(text).into_owned())
    }

    /// The visible text of an HTML page: no tags, comments, scripts and styles; entities as
    /// characters; a line for each paragraph, item, row or heading; white space folded.
    #[rhai_fn(return_raw)]
    pub fn text(html: &str) -> RhaiResultOf<String> {
        check_size("html::text", html.len())?;
        check_walk(html, 4)?;
        Ok(markup::text(html))
    }
}

#[cfg(test)]
mod tests {
    use crate::package::tests::{gives, refuses};

    #[test]
    fn entities_go_both_ways() {
        gives(&[
            (
                r#"html::escape("<a href=\"x\">'&ä</a>")"#,
                r#""&lt;a href=&quot;x&quot;&gt;&#39;&amp;ä&lt;/a&gt;""#,
            ),
            (r#"html::unescape("&lt;&#39;&eacute;&#x41;&nope;&amp;lt;")"#, r#""<'éA&nope;&lt;""#),
            (r#"html::escape("a & naïve é")"#, r#""a &amp; naïve é""#),
            (r#"html::escape("")"#, r#""""#),
            (r#"html::text("<p>a &amp; <b>b</b></p>c")"#, r#""a & b\nc""#),
        ]);
        refuses(&[
            (r#"html::escape(text::replace(big(2_000_000), "x", "'"))"#, "at most 8 MiB"),
            ("html::unescape(1)", "unescape (integer)"),
            ("html::text(())", "text (())"),
        ]);
    }
}
