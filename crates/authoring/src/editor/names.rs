//! The occurrences of a name, and whether it can be renamed.

use super::hover::{Meaning, touches};
use super::outline::{Sketch, Value};
use super::scan::Kind;
use std::ops::Range;
use valvehouse_script_std::reference;

/// A word at a position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameAt {
    /// The word.
    pub name: String,
    /// Its range.
    pub at: Range<usize>,
}

impl Sketch {
    /// Returns the word at a byte.
    pub fn name_at(&self, at: usize) -> Option<NameAt> {
        let place = (0..self.tokens.len())
            .rfind(|place| self.is_word(*place) && touches(&self.tokens[*place].at, at))?;
        Some(NameAt { name: self.word(place).to_owned(), at: self.tokens[place].at.clone() })
    }

    /// Returns all occurrences of a word in code and in `Fn("…")`.
    pub fn places_of(&self, name: &str) -> Vec<Range<usize>> {
        let tokens = self.tokens.iter().enumerate();
        tokens
            .filter_map(|(place, token)| match token.kind {
                Kind::Word if self.word(place) == name => Some(token.at.clone()),
                Kind::Text if self.is_function_name(place) && self.word(place).trim_matches('"') == name => {
                    Some(token.at.start + 1..token.at.end - 1)
                }
                _ => None,
            })
            .collect()
    }

    /// Returns `true` for the text of `Fn("shout")`.
    fn is_function_name(&self, place: usize) -> bool {
        place > 1
            && self.word(place - 1) == "("
            && self.word(place - 2) == "Fn"
            && self.word(place).starts_with('"')
    }

    /// Returns the declaration of the function that `Fn("…")` names at a byte.
    pub fn function_named_at(&self, at: usize) -> Option<Range<usize>> {
        let place = (0..self.tokens.len())
            .find(|place| self.is_function_name(*place) && touches(&self.tokens[*place].at, at))?;
        self.declared(self.word(place).trim_matches('"'))
    }

    /// Returns `true` if a function of another file is called at a byte, such as one that a test calls.
    pub fn is_called_at(&self, at: usize) -> bool {
        let place = (0..self.tokens.len())
            .rfind(|place| self.is_word(*place) && touches(&self.tokens[*place].at, at));
        place.is_some_and(|place| {
            let is_member =
                place.checked_sub(1).is_some_and(|before| matches!(self.word(before), "." | "?." | "::"));
            self.word(place + 1) == "(" && !is_member
        })
    }

    /// Returns the reason why the name at a byte cannot be renamed; `None` if the file itself declares it.
    pub fn fixed_name(&self, at: usize) -> Option<String> {
        let Some(place) = (0..self.tokens.len())
            .rfind(|place| self.is_word(*place) && touches(&self.tokens[*place].at, at))
        else {
            return Some("expected the name of a function, constant or variable at the cursor".to_owned());
        };
        let name = self.word(place);
        match self.meaning(place) {
            Some(Meaning::Own(function)) if reference::entry(&function.name).is_some() => {
                Some(format!("the host calls the function `{name}` by this name"))
            }
            Some(Meaning::Bound(binding)) => match &binding.value {
                Value::Parameter { function, .. } if reference::entry(function).is_some() => {
                    Some(format!("the host passes the parameter `{name}` by this name"))
                }
                _ => None,
            },
            Some(Meaning::Constant(_)) if reference::CONSTANTS.iter().any(|known| known.name == name) => {
                Some(format!("the host reads the constant `{name}` by this name"))
            }
            Some(Meaning::Field(..)) => {
                Some(format!("`{name}` is the name of a setting, under which its value is stored"))
            }
            Some(Meaning::Imported(_, None)) => Some(format!("`{name}` is the name of a module")),
            Some(Meaning::Own(_) | Meaning::Constant(_) | Meaning::Imported(..)) => None,
            Some(Meaning::Host(_) | Meaning::Member(..) | Meaning::Module(_) | Meaning::Key(_)) => {
                Some(format!("`{name}` belongs to the host"))
            }
            None => Some(format!("`{name}` is not declared in a script")),
        }
    }

    /// Returns the test functions of a file, with the ranges of their names.
    pub fn tests(&self) -> Vec<NameAt> {
        let tests = self.functions.iter().filter(|function| function.name.starts_with("test_"));
        tests.map(|test| NameAt { name: test.name.clone(), at: test.at.clone() }).collect()
    }

    /// Returns the occurrences of valves that are read, such as `valves.limit`.
    pub fn valve_uses(&self) -> Vec<NameAt> {
        let words = (1..self.tokens.len()).filter(|place| {
            self.is_word(*place)
                && matches!(self.word(*place - 1), "." | "?.")
                && self.word(*place + 1) != "("
        });
        words
            .filter_map(|place| match self.meaning(place)? {
                Meaning::Field("Valves", field) => {
                    Some(NameAt { name: field.name.clone(), at: self.tokens[place].at.clone() })
                }
                _ => None,
            })
            .collect()
    }
}
