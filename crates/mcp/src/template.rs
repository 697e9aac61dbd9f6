//! Resource templates.

/// Returns `true` if a URI matches a template: `{name}` stands for text without `/`, `{+name}` for any text.
///
/// The time is at most proportional to the length of the URI times the number of parts of the template, since
/// clients choose the one and scripts the other.
pub(crate) fn fits(template: &str, uri: &str) -> bool {
    // `true` at each position in the URI up to which the template matches so far.
    let mut reached = vec![false; uri.len() + 1];
    reached[0] = true;
    let mut rest = template;
    while let Some((before, variable)) = rest.split_once('{') {
        let Some((name, after)) = variable.split_once('}') else { return false };
        reached = behind_text(&reached, before, uri);
        reached = behind_variable(&reached, name.starts_with('+'), uri);
        rest = after;
    }
    behind_text(&reached, rest, uri)[uri.len()]
}

/// Returns the positions after a text that follows one of the positions.
fn behind_text(reached: &[bool], text: &str, uri: &str) -> Vec<bool> {
    let stands = |end: usize| {
        let begin = end.checked_sub(text.len())?;
        Some(reached[begin] && uri.as_bytes()[begin..end] == *text.as_bytes())
    };
    (0..reached.len()).map(|end| stands(end).unwrap_or(false)).collect()
}

/// Returns the positions after one or more characters; without `any`, none of them is `/`.
fn behind_variable(reached: &[bool], any: bool, uri: &str) -> Vec<bool> {
    let (mut begun, mut behind) = (false, vec![false; reached.len()]);
    for (at, letter) in uri.char_indices() {
        begun = (begun || reached[at]) && (any || letter != '/');
        behind[at + letter.len_utf8()] = begun;
    }
    behind
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn a_template_matches_text_in_its_placeholders() {
        for (template, uri, expected) in [
            ("notes://{id}", "notes://1", true),
            ("notes://{id}", "notes://", false),
            ("notes://{id}", "notes://1/2", false),
            ("notes://{+path}", "notes://1/2", true),
            ("t://{a}/x/{b}", "t://1/x/2", true),
            ("t://{a}/x/{b}", "t://1/y/2", false),
            ("t://{a}-{b}", "t://ä-ö", true),
            ("t://x", "t://x", true),
            ("t://{a", "t://1", false),
            ("t://{a}{b}", "t://ä", false),
            ("t://{a}{b}", "t://äö", true),
            ("t://{+a}/{b}", "t://1/2/3", true),
            ("{a}//{b}", "t//x", true),
            ("{a}/x", "t/y/x", false),
        ] {
            assert_eq!(fits(template, uri), expected, "{template} {uri}");
        }
    }

    /// Backtracking would take years for this template.
    #[test]
    fn matching_a_long_uri_takes_bounded_time() {
        let uri = format!("t://{}", "x".repeat(100_000));
        assert!(!fits("t://{+a}x{+b}x{+c}x{+d}x{+e}y", &uri));
        assert!(fits("t://{+a}x{+b}x{+c}x{+d}x{+e}x", &uri));
    }
}
