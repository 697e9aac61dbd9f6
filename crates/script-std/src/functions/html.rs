//! `html::…`: escapes and unescapes HTML, and extracts its text.

use super::argument::RhaiResultOf;
use super::markup;
use super::output::{Pulse, Text, check_size, check_walk};
use super::page::{Element, RAW, Selectors, Tree};
use rhai::plugin::*;
use valvehouse_dialect::value::{Shape, live};
use valvehouse_json::{Json, Object};

#[export_module]
pub(super) mod functions {
    /// Returns the text with `&`, `<`, `>`, `"` and `'` replaced by entities.
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

    /// Returns the text with entities (`&amp;`, `&#39;`, `&eacute;`, …) replaced by their characters.
    #[rhai_fn(return_raw)]
    pub fn unescape(text: &str) -> RhaiResultOf<String> {
        check_size("html::unescape", text.len())?;
        check_walk(text, 2)?;
        Ok(html_escape::decode_html_entities(text).into_owned())
    }

    /// Returns the visible text of an HTML page, without tags, comments, scripts and styles. Entities are
    /// characters, each paragraph, item, row or heading is a line, and white space is collapsed.
    #[rhai_fn(return_raw)]
    pub fn text(html: &str) -> RhaiResultOf<String> {
        check_size("html::text", html.len())?;
        check_walk(html, 4)?;
        Ok(markup::text(html))
    }

    /// Returns the elements of an HTML page that match a CSS selector, as maps `#{ tag, attributes, text, html }`:
    /// the name in lower case, a map of the attributes, the visible text as `html::text` returns it (of scripts and
    /// styles the content), and the HTML of the element. `html::select(page, "article.news > h2 a[href^=http]")`.
    ///
    /// A selector has names, `*`, `#id`, `.class`, `[name]`, `[name=value]` (also `~= |= ^= $= *=`, and `i` before `]`
    /// to ignore case), `:first-child`, `:last-child`, `:nth-child(2n+1)`, `:not(…)`, the relations ` `, `>`, `+`, `~`,
    /// and `,` between alternatives; at most 64 parts. A page has at most 100,000 elements.
    #[rhai_fn(return_raw)]
    pub fn select(html: &str, selector: &str) -> RhaiResultOf<Dynamic> {
        let function = "html::select";
        let selectors = Selectors::read(function, selector)?;
        check_size(function, html.len())?;
        check_walk(html, 2)?;
        let tree = Tree::read(function, html)?;
        let (mut found, mut bytes, mut pulse) = (Vec::new(), 0, Pulse::new());
        for index in selectors.matches(&tree)? {
            let element = &tree.elements[index];
            let source = tree.html(element);
            // Nested elements are part of several results.
            bytes += source.len();
            check_size(function, bytes)?;
            check_walk(source, 4)?;
            found.push(shown(&tree, element));
            pulse.beat()?;
        }
        Ok(live(&found.into(), Shape::Plain))
    }
}

fn shown(tree: &Tree<'_>, element: &Element<'_>) -> Json {
    let attributes = Object::default();
    for (name, value) in element.attributes() {
        let name = name.to_ascii_lowercase();
        if !attributes.contains(&name) {
            attributes.edit(&name, value.into_owned().into());
        }
    }
    let content = tree.content(element);
    let text = match element.name {
        name if markup::is_one_of(name, markup::HIDDEN) => content.to_owned(),
        name if markup::is_one_of(name, RAW) => html_escape::decode_html_entities(content).trim().to_owned(),
        _ => markup::text(content),
    };
    Json::from([
        ("tag", element.name.to_ascii_lowercase().into()),
        ("attributes", Json::Object(attributes)),
        ("text", text.into()),
        ("html", tree.html(element).into()),
    ])
}

#[cfg(test)]
mod tests {
    use crate::functions::tests::{engine, gives, refuses};
    use valvehouse_dialect::value::json_of;
    use valvehouse_json::Json;

    const PAGE: &str = r#"let page = "<!doctype html><title>A &amp; <b></title>\
        <ul id='list' CLASS='big nav'><li>one<li class=x><a href='/a?b=1&amp;c=2' Target>two</A><LI>three</ul>\
        <p lang=en-US>p <b>bold</b><p>q<table><tr><td>1<td>2<tr><td>3</table><script type='a/b'>if (1 < 2) '</p>'</script>\
        <div><div><span data-x='A b'>deep</span></div></div><br><svg><path d='m'/><g/></svg>"; "#;

    /// The elements that a snippet finds.
    fn found(snippet: &str) -> Vec<Json> {
        let value =
            engine().eval::<rhai::Dynamic>(snippet).unwrap_or_else(|error| panic!("{snippet}: {error}"));
        let Ok(Json::Array(found)) = json_of(&value) else { panic!("{snippet}") };
        found.items()
    }

    /// Each selector finds elements of the page with these names and texts.
    fn finds(cases: &[(&str, &str)]) {
        for (selector, texts) in cases {
            let found = found(&format!("{PAGE} html::select(page, `{selector}`)"));
            let texts_found =
                found.iter().map(|one| format!("{}:{}", one.text_or_empty("tag"), one.text_or_empty("text")));
            assert_eq!(
                Json::from(texts_found.map(Json::from).collect::<Vec<_>>()).to_string(),
                *texts,
                "{selector}"
            );
        }
    }

    /// Each snippet finds elements with this HTML.
    fn cuts(cases: &[(&str, &[&str])]) {
        for (snippet, expected) in cases {
            let html: Vec<String> =
                found(snippet).iter().map(|one| one.text_or_empty("html").to_string()).collect();
            assert_eq!(html, *expected, "{snippet}");
        }
    }

    #[test]
    fn selectors_find_elements() {
        finds(&[
            ("title", r#"["title:A & <b>"]"#),
            ("LI", r#"["li:one","li:two","li:three"]"#),
            ("ul > li", r#"["li:one","li:two","li:three"]"#),
            ("#list .x > a", r#"["a:two"]"#),
            (".nav.big li:not(.x)", r#"["li:one","li:three"]"#),
            (".big.nope", "[]"),
            ("li + li", r#"["li:two","li:three"]"#),
            ("li.x ~ li", r#"["li:three"]"#),
            ("ul ~ p", r#"["p:p bold","p:q"]"#),
            ("ul + p b", r#"["b:bold"]"#),
            ("tr > td", r#"["td:1","td:2","td:3"]"#),
            ("tr:last-child td", r#"["td:3"]"#),
            ("li:first-child, li:last-child", r#"["li:one","li:three"]"#),
            ("li:nth-child(2n+1)", r#"["li:one","li:three"]"#),
            ("li:nth-child( even )", r#"["li:two"]"#),
            ("li:nth-child(-n + 2)", r#"["li:one","li:two"]"#),
            ("div div span", r#"["span:deep"]"#),
            ("div > span", r#"["span:deep"]"#),
            ("body span", "[]"),
            ("[href]", r#"["a:two"]"#),
            ("a[target]", r#"["a:two"]"#),
            ("a[href='/a?b=1&c=2']", r#"["a:two"]"#),
            ("a[href^=\\/a]", r#"["a:two"]"#),
            ("a[href$=\"c=2\"][href*=b]", r#"["a:two"]"#),
            ("p[lang|=en]", r#"["p:p bold"]"#),
            ("[data-x~=b]", r#"["span:deep"]"#),
            ("[data-x='a B' i]", r#"["span:deep"]"#),
            ("[data-x='a B']", "[]"),
            ("script", r#"["script:if (1 < 2) '</p>'"]"#),
            ("svg > *", r#"["path:","g:"]"#),
            ("*:not(*)", "[]"),
        ]);
        gives(&[
            (
                &format!("{PAGE} html::select(page, \"li a\")"),
                r#"[{"tag":"a","attributes":{"href":"/a?b=1&c=2","target":""},"text":"two","html":"<a href='/a?b=1&amp;c=2' Target>two</A>"}]"#,
            ),
            (
                r#"html::select("<a b=1 B=2>", "a")"#,
                r#"[{"tag":"a","attributes":{"b":"1"},"text":"","html":"<a b=1 B=2>"}]"#,
            ),
            (r#"html::select("", "a")"#, "[]"),
            (r#"html::select("<!-- <a> --><?a?><é></a></", "a")"#, "[]"),
        ]);
        cuts(&[
            (r#"html::select("<li>one<li>two", "li")"#, &["<li>one", "<li>two"]),
            (r#"html::select("<a href=/x", "a")"#, &["<a href=/x"]),
            (r#"html::select("<b>a</i>b</b>c", "b")"#, &["<b>a</i>b</b>"]),
            (r#"html::select("<div><b>a</div>c", "*")"#, &["<div><b>a</div>", "<b>a"]),
            (
                r#"html::select("<ul><li>a<ul><li>b</ul><li>c</ul>d", "ul > li")"#,
                &["<li>a<ul><li>b</ul>", "<li>b", "<li>c"],
            ),
            (r#"html::select("<script>'</b>'", "script")"#, &["<script>'</b>'"]),
            (r#"html::select("<td><b>a</b></p></b>b<td>c", "td")"#, &["<td><b>a</b></p></b>b", "<td>c"]),
        ]);
    }

    #[test]
    fn invalid_and_oversized_selectors_are_rejected() {
        refuses(&[
            (r#"html::select("", "")"#, "it ends where an element is expected"),
            (r#"html::select("", "a >")"#, "it ends where an element is expected"),
            (r#"html::select("", "a,,b")"#, "unexpected `,`"),
            (r#"html::select("", "a]")"#, "unexpected `]`"),
            (r#"html::select("", "a[b")"#, "a `]` is missing"),
            (r#"html::select("", "a[b=\"c]")"#, "a `\"` is missing"),
            (r#"html::select("", "a:hover")"#, "cannot read `:hover`; use :first-child"),
            (r#"html::select("", "a:nth-child(x)")"#, "write `3`, `odd`, `even` or `2n+1`"),
            (r#"html::select("", "a:not(b")"#, "a `)` is missing"),
            (r#"html::select("", ":not(:not(:not(:not(:not(a)))))")"#, "cannot read `:not`"),
            (r#"let s = "a"; s.pad(10_000, " a"); html::select("", s)"#, "limit of 4096 bytes"),
            (r#"let s = "a"; s.pad(1_001, " a"); html::select("", s)"#, "limit of 64 parts"),
            (r#"let s = "a"; s.pad(1_001, ".a"); html::select("", s)"#, "limit of 128 conditions"),
            (r#"let s = ""; s.pad(300_003, "<a>"); html::select(s, "a")"#, "limit of 100000 elements"),
            (
                r#"let s = ""; s.pad(30_000, "<div>"); html::select(s + big(1_000_000), "div")"#,
                "at most 8 MiB",
            ),
            ("html::select(big(9_000_000), \"a\")", "at most 8 MiB"),
            ("html::select((), \"a\")", "select ((), string)"),
        ]);
    }

    #[test]
    fn elements_nest_as_deep_as_in_browsers() {
        let deep = found(
            r#"let s = ""; s.pad(50_000, "<div>"); html::select(s + "<i>x", "div > i, div div div i")"#,
        );
        assert_eq!(deep.len(), 1);
        assert!(found(r#"let s = ""; s.pad(40_000, "</p>"); html::select(s, "p")"#).is_empty());
    }

    #[test]
    fn entities_are_encoded_and_decoded() {
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
