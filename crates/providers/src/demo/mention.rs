//! The tools that a text names, in their order.

use std::ops::Range;
use valvehouse_json::Json;

/// A tool as the request offers it.
#[derive(Debug, Clone)]
pub(super) struct Offer {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) parameters: Json,
}

/// A tool named in a text, with the words that belong to it.
#[derive(Debug)]
pub(super) struct Mention<'a> {
    pub(super) offer: &'a Offer,
    pub(super) words: &'a str,
}

/// Words that stand in many tools' names and tell none of them.
const COMMON: [&str; 12] = [
    "call", "create", "delete", "fetch", "find", "list", "make", "read", "search", "tool", "update", "write",
];

/// The tools a request offers and lets the model choose.
pub(super) fn offers(body: &Json) -> Vec<Offer> {
    if body.text("tool_choice").is_some_and(|choice| choice == "none") {
        return Vec::new();
    }
    let tools = body.list("tools");
    let functions = tools.iter().filter_map(|tool| tool.get("function"));
    functions
        .filter_map(|function| {
            Some(Offer {
                name: function.text("name")?.into(),
                description: function.text_or_empty("description").into(),
                parameters: function.field("parameters"),
            })
        })
        .collect()
}

/// The calls a text asks for, round by round: what follows the word "then" waits for the results
/// of what came before.
pub(super) fn rounds<'a>(text: &'a str, offers: &'a [Offer]) -> Vec<Vec<Mention<'a>>> {
    let sections = sections(text);
    let named: Vec<_> = sections.iter().map(|section| places(section, offers, full_names)).collect();
    // A tool that is named in full says more than words that happen to fit others.
    let found = if named.iter().all(Vec::is_empty) {
        sections.iter().map(|section| places(section, offers, telling_word)).collect()
    } else {
        named
    };
    let rounds = sections.iter().zip(found).map(|(section, places)| mentions(section, &places));
    rounds.filter(|round| !round.is_empty()).collect()
}

fn sections(text: &str) -> Vec<&str> {
    let mut sections = Vec::new();
    let mut start = 0;
    for place in word_places(text, "then") {
        sections.push(&text[start..place.start]);
        start = place.end;
    }
    sections.push(&text[start..]);
    sections
}

type Place<'a> = (Range<usize>, &'a Offer);

fn places<'a>(
    text: &str,
    offers: &'a [Offer],
    find: fn(&str, &Offer, &[Offer]) -> Vec<Range<usize>>,
) -> Vec<Place<'a>> {
    let mut places: Vec<Place<'a>> = offers
        .iter()
        .flat_map(|offer| find(text, offer, offers).into_iter().map(move |place| (place, offer)))
        .collect();
    // Of two that overlap the longer one is meant: `todo add all`, not `todo add`.
    places.sort_by_key(|(place, _)| (place.start, std::cmp::Reverse(place.end)));
    let mut end = 0;
    places.retain(|(place, _)| {
        let free = place.start >= end;
        end = end.max(place.end);
        free
    });
    places
}

/// To each place the words up to the next one; before the first one, when nothing follows it.
fn mentions<'a>(text: &'a str, places: &[Place<'a>]) -> Vec<Mention<'a>> {
    let mut mentions = Vec::new();
    for (at, (place, offer)) in places.iter().enumerate() {
        let end = places.get(at + 1).map_or(text.len(), |(next, _)| next.start);
        let after = &text[place.end..end];
        let says_something = after.contains(|letter: char| letter.is_alphanumeric());
        let words = if says_something || at > 0 { after } else { &text[..place.start] };
        mentions.push(Mention { offer, words });
    }
    mentions
}

/// The name as it is, or its words with spaces or hyphens between them.
fn full_names(text: &str, offer: &Offer, _: &[Offer]) -> Vec<Range<usize>> {
    let mut places = word_places(text, &offer.name);
    if offer.name.contains('_') {
        places.extend([" ", "-"].iter().flat_map(|gap| word_places(text, &offer.name.replace('_', gap))));
    }
    places
}

/// A word of the name that the description confirms and no other tool's name has, or a `#tag` of
/// the description.
fn telling_word(text: &str, offer: &Offer, offers: &[Offer]) -> Vec<Range<usize>> {
    let description = offer.description.to_lowercase();
    let name = offer.name.to_lowercase();
    let from_name = name.split('_').filter(|word| {
        let others =
            offers.iter().filter(|other| other.name.to_lowercase().split('_').any(|own| own == *word));
        word.len() >= 4
            && !COMMON.contains(word)
            && !word_places(&description, word).is_empty()
            && others.count() == 1
    });
    let tags = description.split_whitespace().filter_map(|word| word.strip_prefix('#'));
    let tags = tags.map(|tag| tag.trim_end_matches(|letter: char| !letter.is_alphanumeric()));
    let first = from_name.chain(tags).filter_map(|word| word_places(text, word).into_iter().next());
    first.min_by_key(|place| place.start).into_iter().collect()
}

/// The places of a word that stands by itself, in either case. Only ASCII letters are compared without case, so that
/// places in the text stay what they are.
fn word_places(text: &str, word: &str) -> Vec<Range<usize>> {
    if word.is_empty() {
        return Vec::new();
    }
    let (text, word) = (text.to_ascii_lowercase(), word.to_ascii_lowercase());
    let part = |letter: char| letter.is_alphanumeric() || letter == '_';
    text.match_indices(&word)
        .map(|(start, found)| start..start + found.len())
        .filter(|place| !text[..place.start].ends_with(part) && !text[place.end..].starts_with(part))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(name: &str, description: &str) -> Offer {
        Offer { name: name.into(), description: description.into(), parameters: Json::Null }
    }

    fn named(text: &str) -> Vec<Vec<String>> {
        let offers = [
            offer("get_weather", "Get the current weather for a city."),
            offer("todo_add", "Adds an entry #tasks."),
            offer("todo_add_all", "Adds entries."),
        ];
        rounds(text, &offers)
            .iter()
            .map(|round| {
                round.iter().map(|call| format!("{}|{}", call.offer.name, call.words.trim())).collect()
            })
            .collect()
    }

    #[test]
    fn tools_are_found_by_name_by_its_words_and_by_what_they_are_about() {
        for (text, expected) in [
            ("Please call get_weather for Bonn", "get_weather|for Bonn"),
            ("Get weather: Bonn", "get_weather|: Bonn"),
            ("How is the Weather in Bonn?", "get_weather|in Bonn?"),
            ("Bonn weather!", "get_weather|Bonn"),
            ("todo-add milk", "todo_add|milk"),
            ("todo add all of it", "todo_add_all|of it"),
            ("put milk on my tasks", "todo_add|put milk on my"),
        ] {
            assert_eq!(named(text), [[expected]], "{text}");
        }
    }

    #[test]
    fn words_that_only_look_alike_name_nothing() {
        for text in ["", "hello", "weathered", "get_weather_now", "add something", "a todo"] {
            assert!(named(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn several_tools_are_called_in_order_and_then_waits() {
        assert_eq!(
            named("todo_add milk and get_weather Bonn, then todo_add tea"),
            [vec!["todo_add|milk and", "get_weather|Bonn,"], vec!["todo_add|tea"]]
        );
        assert_eq!(named("Then, the weather"), [["get_weather|, the"]]);
    }
}
