//! Ranking of tools for a query by BM25. The order is deterministic.

use super::callable::Tool;
use std::collections::HashMap;
use valvehouse_json::Json;

/// The BM25 parameters for repeated words and for the length of a description, with their usual values.
const REPEATED: f64 = 1.2;
const LENGTH: f64 = 0.75;
/// The weight of a word in the name of a tool or its module, relative to a word of the description.
const NAME: usize = 3;
/// The maximum number of bytes of a tool's texts that are indexed.
const MAX_TEXT: usize = 4 << 10;

/// Returns the tools that contain a word of the query, best match first; ties are sorted by name.
pub(crate) fn ranked<'a>(tools: &[&'a Tool], query: &str) -> Vec<&'a Tool> {
    let mut terms = words(query);
    terms.sort();
    terms.dedup();
    let documents: Vec<Vec<String>> = tools.iter().map(|tool| words_of(tool)).collect();
    let lengths: usize = documents.iter().map(Vec::len).sum();
    let average = (lengths as f64 / documents.len().max(1) as f64).max(1.0);
    let counts: Vec<HashMap<&str, f64>> = documents.iter().map(|document| count(document)).collect();
    let mut scores = vec![0.0_f64; tools.len()];
    for word in &terms {
        let having = counts.iter().filter(|counts| counts.contains_key(word.as_str())).count() as f64;
        let rarity = (1.0 + (tools.len() as f64 - having + 0.5) / (having + 0.5)).ln();
        for ((score, counts), document) in scores.iter_mut().zip(&counts).zip(&documents) {
            let times = counts.get(word.as_str()).copied().unwrap_or(0.0);
            let length = 1.0 - LENGTH + LENGTH * document.len() as f64 / average;
            *score += rarity * times * (REPEATED + 1.0) / (times + REPEATED * length);
        }
    }
    let mut fitting: Vec<(f64, &Tool)> =
        scores.into_iter().zip(tools.iter().copied()).filter(|(score, _)| *score > 0.0).collect();
    fitting.sort_by(|(a, one), (b, other)| b.total_cmp(a).then_with(|| one.name().cmp(other.name())));
    fitting.into_iter().map(|(_, tool)| tool).collect()
}

fn count(document: &[String]) -> HashMap<&str, f64> {
    let mut counts = HashMap::new();
    for word in document {
        *counts.entry(word.as_str()).or_insert(0.0) += 1.0;
    }
    counts
}

/// Returns the indexed words of a tool: name, module, tags, description and parameters.
fn words_of(tool: &Tool) -> Vec<String> {
    let spec = &tool.spec;
    let mut left = MAX_TEXT;
    let mut found = Vec::new();
    let mut add = |text: &str, times: usize| {
        let text = &text[..text.floor_char_boundary(left)];
        left -= text.len();
        let words = words(text);
        (0..times).for_each(|_| found.extend(words.iter().cloned()));
    };
    add(&spec.name, NAME);
    spec.module.iter().for_each(|module| add(module, NAME));
    spec.tags.iter().for_each(|tag| add(tag, 1));
    add(&spec.description, 1);
    describe(&spec.parameters.schema().field("properties"), &mut |text| add(text, 1));
    found
}

/// Visits the names and descriptions of parameters.
fn describe(properties: &Json, add: &mut impl FnMut(&str)) {
    for (name, schema) in properties.entries() {
        add(&name);
        add(&schema.text_or_empty("description"));
    }
}

/// Splits a text into lower-case words without a plural `s`; `createIssue` and `create_issue` have two words.
/// In scripts without spaces, each letter is a word.
fn words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut was_lower) = (Vec::new(), String::new(), false);
    let mut end = |word: &mut String| {
        let whole = std::mem::take(word);
        let is_plural = whole.len() > 3 && whole.ends_with('s') && !whole.ends_with("ss");
        let whole = if is_plural { whole[..whole.len() - 1].to_owned() } else { whole };
        if !whole.is_empty() {
            words.push(whole);
        }
    };
    for letter in text.chars() {
        let is_alone =
            matches!(letter, '\u{2e80}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}');
        if !letter.is_alphanumeric() || is_alone || (was_lower && letter.is_uppercase()) {
            end(&mut word);
        }
        if letter.is_alphanumeric() {
            word.extend(letter.to_lowercase());
        }
        if is_alone {
            end(&mut word);
        }
        was_lower = letter.is_lowercase();
    }
    end(&mut word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str, description: &str) -> Tool {
        Tool::from_json_fn(name, |args| Ok(args.into())).description(description)
    }

    fn found(tools: &[Tool], query: &str) -> Vec<String> {
        let tools: Vec<&Tool> = tools.iter().collect();
        ranked(&tools, query).into_iter().map(|tool| tool.name().to_owned()).collect()
    }

    #[test]
    fn the_best_matching_tool_ranks_first_in_any_order() {
        let mut tools = vec![
            tool("github_create_issue", "Opens an issue in a repository"),
            tool("github_list_issues", "Lists the issues of a repository"),
            tool("calendarAddEvent", "Puts an appointment into the calendar"),
            tool("weather", "Forecast for a city"),
            tool("translate", "翻译 文本"),
        ];
        let queries = [
            ("create an issue", "github_create_issue"),
            ("Will it rain? a weather forecast", "weather"),
            ("add event", "calendarAddEvent"),
            ("appointments", "calendarAddEvent"),
            ("issues list", "github_list_issues"),
            ("请翻译", "translate"),
        ];
        for (query, name) in queries {
            assert_eq!(found(&tools, query)[0], name, "{query}");
        }
        let before = found(&tools, "a repository");
        assert_eq!(before[..2], ["github_create_issue", "github_list_issues"]);
        tools.reverse();
        assert_eq!(found(&tools, "a repository"), before);
        assert!(found(&tools, "zebra").is_empty() && found(&tools, "  ").is_empty());
    }

    #[test]
    fn only_the_start_of_a_huge_description_is_ranked() {
        let tools = [tool("a", &format!("first {}é last", "x".repeat(5 << 20))), tool("b", "last")];
        assert_eq!(found(&tools, "first"), ["a"]);
        assert_eq!(found(&tools, "last"), ["b"]);
    }
}
