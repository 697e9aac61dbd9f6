//! A strict reader of Prometheus' text format.

use std::collections::{BTreeMap, BTreeSet};

/// One scrape: values by name and labels.
pub(super) struct Scrape(BTreeMap<(String, BTreeMap<String, String>), f64>);

impl Scrape {
    /// Reads a scrape; every deviation from the format is a failure.
    pub(super) fn read(text: &str) -> Self {
        assert!(text.ends_with('\n'), "the last line has no end");
        let mut figures = BTreeMap::new();
        let mut seen = BTreeSet::new();
        let (mut family, mut kind) = (String::new(), String::new());
        let mut help = String::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, words) = rest.split_once(' ').unwrap_or_else(|| panic!("no help: {line}"));
                assert!(!words.is_empty() && seen.insert(name.to_owned()), "twice, or no help: {line}");
                help = name.to_owned();
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, word) = rest.split_once(' ').unwrap_or_else(|| panic!("no type: {line}"));
                assert_eq!(name, help, "a type without its help");
                assert_eq!(word == "counter", name.ends_with("_total"), "{line}");
                (family, kind) = (name.to_owned(), word.to_owned());
            } else {
                let (name, labels, value) = sample(line);
                let suffix = name.strip_prefix(&family).unwrap_or_else(|| panic!("not of {family}: {line}"));
                let fits = match kind.as_str() {
                    "histogram" => ["_bucket", "_sum", "_count"].contains(&suffix),
                    _ => suffix.is_empty(),
                };
                assert!(fits && name.chars().all(is_of_a_name), "{line}");
                assert!(kind != "counter" || value >= 0.0, "{line}");
                assert!(figures.insert((name, labels), value).is_none(), "twice: {line}");
            }
        }
        let scrape = Self(figures);
        scrape.check_buckets();
        scrape
    }

    /// Returns a value by its labels, `a=b,c=d`; 0 if it does not exist.
    pub(super) fn of(&self, name: &str, labels: &str) -> f64 {
        let labels = labels.split(',').filter_map(|label| label.split_once('='));
        let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        self.0.get(&(name.to_owned(), labels)).copied().unwrap_or(0.0)
    }

    /// Returns all series without their values.
    pub(super) fn series(&self) -> Vec<(String, BTreeMap<String, String>)> {
        self.0.keys().cloned().collect()
    }

    /// Checks that the buckets rise and that the last one counts everything.
    fn check_buckets(&self) {
        let mut spreads: BTreeMap<_, Vec<(f64, f64)>> = BTreeMap::new();
        for ((name, labels), value) in &self.0 {
            let Some(family) = name.strip_suffix("_bucket") else { continue };
            let mut labels = labels.clone();
            let bound = labels.remove("le").expect("a bucket has a bound");
            let bound = bound.replace("+Inf", "inf").parse().expect("a bound is a number");
            spreads.entry((family.to_owned(), labels)).or_default().push((bound, *value));
        }
        for ((family, labels), mut buckets) in spreads {
            buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
            assert!(buckets.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "{family} {labels:?} {buckets:?}");
            let (last, all) = buckets[buckets.len() - 1];
            assert!(last.is_infinite());
            assert_eq!(Some(&all), self.0.get(&(format!("{family}_count"), labels.clone())), "{family}");
            assert!(self.0.contains_key(&(format!("{family}_sum"), labels)), "{family}");
        }
    }
}

fn is_of_a_name(letter: char) -> bool {
    letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_'
}

/// Reads `name{label="value",…} number`.
fn sample(line: &str) -> (String, BTreeMap<String, String>, f64) {
    let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no figure: {line}"));
    let value: f64 = value.parse().unwrap_or_else(|_| panic!("no number: {line}"));
    let Some((name, rest)) = series.split_once('{') else {
        return (series.to_owned(), BTreeMap::new(), value);
    };
    let mut labels = BTreeMap::new();
    let mut rest = rest.strip_suffix('}').unwrap_or_else(|| panic!("open labels: {line}"));
    while !rest.is_empty() {
        let (label, after) = rest.split_once("=\"").unwrap_or_else(|| panic!("no label: {line}"));
        let mut text = String::new();
        let mut letters = after.char_indices();
        let end = loop {
            match letters.next().unwrap_or_else(|| panic!("an open label: {line}")) {
                (_, '\\') => match letters.next() {
                    Some((_, 'n')) => text.push('\n'),
                    Some((_, letter @ ('"' | '\\'))) => text.push(letter),
                    other => panic!("no such escape: {other:?} in {line}"),
                },
                (end, '"') => break end,
                (_, letter) => text.push(letter),
            }
        };
        assert!(label.chars().all(is_of_a_name), "{line}");
        assert!(labels.insert(label.to_owned(), text).is_none(), "a label twice: {line}");
        let more = &after[end + 1..];
        rest = more.strip_prefix(',').unwrap_or(more);
    }
    (name.to_owned(), labels, value)
}
