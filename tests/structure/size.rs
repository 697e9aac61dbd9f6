//! The size of the packages in lines of code proper: without comments, blank lines and tests.
//!
//! `size.txt` lists the lines of each package. A number only shrinks:
//! `VALVEHOUSE_UPDATE=1 cargo test --test structure size` writes smaller ones. A larger one is written by hand and needs
//! a reason in its commit.

use crate::{root, silences};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The list of the sizes.
const LIST: &str = "tests/structure/size.txt";
/// The lines by which a package may shrink before its number must follow.
const SLACK: usize = 100;

#[test]
fn packages_do_not_grow() {
    let found = silences::counts(|text| [lines(text)]).into_iter();
    let found: BTreeMap<PathBuf, usize> = found.map(|(package, [lines])| (package, lines)).collect();
    let mut listed = listed();
    if std::env::var_os("VALVEHOUSE_UPDATE").is_some() {
        for (package, size) in &mut listed {
            *size = found.get(package).map_or(0, |found| *found.min(size));
        }
        listed.retain(|_, size| *size > 0);
        let lines = listed.iter().map(|(package, size)| format!("{} {size}\n", package.display()));
        std::fs::write(root().join(LIST), lines.collect::<String>()).unwrap();
    }
    let mut wrong = Vec::new();
    for (package, found) in found {
        let listed = listed.remove(&package).unwrap_or(0);
        if found > listed || found + SLACK < listed {
            wrong.push(format!("{}: {found} lines, {listed} are listed", package.display()));
        }
    }
    wrong.extend(listed.keys().map(|package| format!("{}: listed, but not there", package.display())));
    assert!(wrong.is_empty(), "{LIST} differs; look for what can go:\n{}", wrong.join("\n"));
}

fn listed() -> BTreeMap<PathBuf, usize> {
    let text = std::fs::read_to_string(root().join(LIST)).unwrap();
    let rows = text.lines().map(|line| line.rsplit_once(' ').unwrap());
    rows.map(|(package, size)| (package.into(), size.parse().unwrap())).collect()
}

/// Returns the number of lines of code proper of a file.
fn lines(text: &str) -> usize {
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or(text);
    code.lines().map(str::trim_start).filter(|line| !line.is_empty() && !line.starts_with("//")).count()
}

#[test]
fn comments_blank_lines_and_tests_are_no_lines() {
    let text = "//! One.\n\n/// Two.\nfn two() {\n    // why\n    three();\n}\n#[cfg(test)]\nmod tests {\n    fn four() {}\n}\n";
    assert_eq!(lines(text), 3);
}

/// The maximum number of lines of a function.
const MAX_FUNCTION: usize = 80;
/// The number of longer functions.
pub(crate) const LONG_FUNCTION: &str = "long-function";

#[test]
fn functions_are_short() {
    let help = "split it, or write what it decides as a table";
    silences::check_counts([(LONG_FUNCTION, help)], |text| [long_functions(text)]);
}

/// Returns the number of long functions of a formatted file before its tests.
fn long_functions(text: &str) -> usize {
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or(text);
    let lines: Vec<&str> = code.lines().collect();
    let is_long = |(at, line): (usize, &&str)| {
        let indent = &line[..line.len() - line.trim_start().len()];
        let before = line.split_once("fn ").map(|(before, _)| before.split_whitespace());
        let is_function = before.is_some_and(|mut words| {
            words.all(|word| word.starts_with("pub") || ["const", "async", "unsafe"].contains(&word))
        });
        let length = lines[at..].iter().position(|line| line.strip_prefix(indent) == Some("}"));
        is_function && !line.ends_with(';') && length.is_some_and(|length| length >= MAX_FUNCTION)
    };
    lines.iter().enumerate().filter(|line| is_long(*line)).count()
}

#[test]
fn a_function_of_more_than_80_lines_is_counted() {
    let of_lines =
        |lines: usize| format!("    pub fn one(\n{}    }}\n}}\n", "        two();\n".repeat(lines - 2));
    assert_eq!((long_functions(&of_lines(80)), long_functions(&of_lines(81))), (0, 1));
}
