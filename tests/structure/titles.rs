//! Titles of commits: `area: verb object`, within 72 characters.

use crate::root;
use std::process::Command;

/// The number of commits that are checked; older ones have other forms.
const CHECKED: &str = "200";
const MAX_LETTERS: usize = 72;

#[test]
fn titles_of_commits_name_an_area_and_an_action() {
    let mut log = Command::new("git");
    log.current_dir(root()).args(["log", "--no-merges", "--format=%s", "-n", CHECKED]);
    // The source of a release is not a checkout.
    let Some(listed) = log.output().ok().filter(|output| output.status.success()) else { return };
    let listed = String::from_utf8(listed.stdout).unwrap();
    let wrong: Vec<&str> = listed.lines().filter(|title| !is_title(title)).collect();
    assert!(
        wrong.is_empty(),
        "write `area: verb object`, at most {MAX_LETTERS} characters:\n{}",
        wrong.join("\n")
    );
}

fn is_title(text: &str) -> bool {
    let is_area = |area: &str| {
        !area.is_empty()
            && area
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"/_.-, ".contains(&byte))
    };
    let is_action =
        |action: &str| action.contains(' ') && action.starts_with(|letter: char| letter.is_lowercase());
    text.chars().count() <= MAX_LETTERS
        && text.split_once(": ").is_some_and(|(area, action)| is_area(area) && is_action(action))
}

#[test]
fn titles_of_other_forms_are_found() {
    assert!(is_title("script: read not in as Python does"));
    for wrong in [
        "script: Read it",
        "Script: read it",
        "read it",
        "script: reads",
        &format!("a: b {}", "c".repeat(70)),
    ] {
        assert!(!is_title(wrong), "{wrong}");
    }
}
