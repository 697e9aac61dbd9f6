//! CSS selectors, matched against all elements of a page in one pass.
//!
//! Each element has a set of the steps that match there: the conditions of a step hold, and the previous step matches
//! at the parent, an ancestor or a sibling. The sets are computed in the order of the page, without backtracking.

use super::super::argument::{RhaiResultOf, fail};
use super::super::output::Pulse;
use super::tree::{Element, Tree};
use std::borrow::Cow;
use std::iter::Peekable;
use std::str::Chars;
use valvehouse_dialect::call::redaction::{excerpt, redacted};

/// The maximum number of steps of all selectors; each is a bit of a set.
const MAX_STEPS: usize = 64;
/// The maximum number of conditions of all steps.
const MAX_CONDITIONS: usize = 128;
/// The maximum length of a selector, in bytes.
const MAX_BYTES: usize = 4096;
/// The maximum number of nested `:not(…)`.
const MAX_LEVELS: usize = 4;

/// Selectors that are separated by commas.
#[derive(Debug)]
pub(crate) struct Selectors {
    steps: Vec<Step>,
    /// The last step of each selector.
    ends: u64,
}

#[derive(Debug)]
struct Step {
    /// The relation to the previous step; `None` for a first one.
    after: Option<Relation>,
    conditions: Vec<Condition>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relation {
    Ancestor,
    Parent,
    Neighbor,
    Sibling,
}

#[derive(Debug)]
enum Condition {
    Any,
    Name(String),
    Class(String),
    /// A test of an attribute; `None` tests only its presence.
    Attribute {
        name: String,
        test: Option<Test>,
        ignores_case: bool,
    },
    /// The position among the siblings, counted from 1: the offset plus a multiple of the step.
    Nth {
        step: i64,
        offset: i64,
    },
    Last,
    Not(Vec<Vec<Condition>>),
}

#[derive(Debug)]
struct Test {
    operator: Option<char>,
    value: String,
}

impl Selectors {
    /// Reads selectors.
    ///
    /// # Errors
    ///
    /// Returns an error that names the invalid part.
    pub(crate) fn read(function: &str, css: &str) -> RhaiResultOf<Self> {
        if css.len() > MAX_BYTES {
            let why = format!("the selector exceeded its limit of {MAX_BYTES} bytes");
            return Err(fail(function, why));
        }
        let mut reader = Reader { rest: css.chars().peekable(), conditions: 0 };
        reader.selectors().map_err(|why| {
            // The reason names a part of the selector, which could be a part of a secret.
            let why = match redacted(css) {
                Cow::Borrowed(_) => format!(": {why}"),
                Cow::Owned(_) => String::new(),
            };
            fail(function, format!("invalid selector `{}`{why}", excerpt(css)))
        })
    }

    /// Returns the elements that a selector matches, in the order of the page.
    ///
    /// # Errors
    ///
    /// Returns an error if the budget of the call is used up.
    pub(crate) fn matches(&self, tree: &Tree<'_>) -> RhaiResultOf<Vec<usize>> {
        /// The steps that match at an element, at it or an ancestor, and at it or a previous sibling.
        #[derive(Clone, Copy, Default)]
        struct Steps {
            own: u64,
            lineage: u64,
            row: u64,
        }
        let mut all: Vec<Steps> = Vec::with_capacity(tree.elements.len());
        let (mut found, mut pulse) = (Vec::new(), Pulse::new());
        for (index, element) in tree.elements.iter().enumerate() {
            let of = |index: Option<usize>| index.map_or(Steps::default(), |index| all[index]);
            let (parent, before) = (of(element.parent), of(element.before));
            let mut own = 0;
            for (place, step) in self.steps.iter().enumerate() {
                let reached = match step.after {
                    None => 1,
                    Some(relation) => {
                        let ended = match relation {
                            Relation::Ancestor => parent.lineage,
                            Relation::Parent => parent.own,
                            Relation::Neighbor => before.own,
                            Relation::Sibling => before.row,
                        };
                        ended >> (place - 1) & 1
                    }
                };
                if reached == 1 && holds(&step.conditions, element) {
                    own |= 1 << place;
                }
                if element.has_long_attributes() {
                    pulse.beat()?;
                }
            }
            pulse.beat()?;
            all.push(Steps { own, lineage: own | parent.lineage, row: own | before.row });
            if own & self.ends != 0 {
                found.push(index);
            }
        }
        Ok(found)
    }
}

fn holds(conditions: &[Condition], element: &Element<'_>) -> bool {
    conditions.iter().all(|condition| match condition {
        Condition::Any => true,
        Condition::Name(name) => element.name.eq_ignore_ascii_case(name),
        Condition::Class(class) => element
            .attribute("class")
            .is_some_and(|classes| classes.split_ascii_whitespace().any(|known| known == class)),
        Condition::Attribute { name, test, ignores_case } => element.attribute(name).is_some_and(|value| {
            test.as_ref().is_none_or(|test| match ignores_case {
                true => test.holds(&value.to_lowercase()),
                false => test.holds(&value),
            })
        }),
        Condition::Nth { step, offset } => {
            let beyond = i64::try_from(element.number).unwrap_or(i64::MAX) - offset;
            match step {
                0 => beyond == 0,
                step => beyond % step == 0 && beyond / step >= 0,
            }
        }
        Condition::Last => element.is_last,
        Condition::Not(others) => !others.iter().any(|conditions| holds(conditions, element)),
    })
}

impl Test {
    fn holds(&self, value: &str) -> bool {
        let expected = self.value.as_str();
        match self.operator {
            None => value == expected,
            // As in browsers, an empty text is not found.
            Some(_) if expected.is_empty() => false,
            Some('~') => value.split_ascii_whitespace().any(|word| word == expected),
            Some('|') => {
                value.strip_prefix(expected).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
            }
            Some('^') => value.starts_with(expected),
            Some('$') => value.ends_with(expected),
            Some(_) => value.contains(expected),
        }
    }
}

type Read<T> = Result<T, String>;

struct Reader<'a> {
    rest: Peekable<Chars<'a>>,
    conditions: usize,
}

impl Reader<'_> {
    fn selectors(&mut self) -> Read<Selectors> {
        let mut selectors = Selectors { steps: Vec::new(), ends: 0 };
        loop {
            self.skip_space();
            let mut after = None;
            loop {
                let conditions = self.compound(0)?;
                if selectors.steps.len() == MAX_STEPS {
                    return Err(format!("it exceeded its limit of {MAX_STEPS} parts"));
                }
                selectors.steps.push(Step { after, conditions });
                after = self.relation();
                if after.is_none() {
                    break;
                }
            }
            selectors.ends |= 1 << (selectors.steps.len() - 1);
            match self.rest.next() {
                None => return Ok(selectors),
                Some(',') => {}
                Some(other) => return Err(unexpected(other)),
            }
        }
    }

    /// Reads the relation to the next step; `None` at the end of a selector.
    fn relation(&mut self) -> Option<Relation> {
        let has_space = self.skip_space();
        let relation = match self.rest.peek()? {
            '>' => Relation::Parent,
            '+' => Relation::Neighbor,
            '~' => Relation::Sibling,
            ',' | ')' => return None,
            _ => return has_space.then_some(Relation::Ancestor),
        };
        self.rest.next();
        self.skip_space();
        Some(relation)
    }

    fn compound(&mut self, level: usize) -> Read<Vec<Condition>> {
        let mut conditions = Vec::new();
        loop {
            let condition = match self.rest.peek().copied() {
                Some('*') if conditions.is_empty() => {
                    self.rest.next();
                    Condition::Any
                }
                Some('#') => {
                    self.rest.next();
                    let test = Some(Test { operator: None, value: self.name()? });
                    Condition::Attribute { name: "id".into(), test, ignores_case: false }
                }
                Some('.') => {
                    self.rest.next();
                    Condition::Class(self.name()?)
                }
                Some('[') => self.attribute()?,
                Some(':') => self.pseudo_class(level)?,
                Some(first) if conditions.is_empty() && is_of_name(first) => {
                    Condition::Name(self.name()?.to_ascii_lowercase())
                }
                _ if !conditions.is_empty() => return Ok(conditions),
                Some(other) => return Err(unexpected(other)),
                None => return Err("it ends where an element is expected".into()),
            };
            self.conditions += 1;
            if self.conditions > MAX_CONDITIONS {
                return Err(format!("it exceeded its limit of {MAX_CONDITIONS} conditions"));
            }
            conditions.push(condition);
        }
    }

    /// Reads `[name]`, `[name=value]` or `[name^="value" i]`.
    fn attribute(&mut self) -> Read<Condition> {
        self.rest.next();
        self.skip_space();
        let name = self.name()?.to_ascii_lowercase();
        self.skip_space();
        let operator = match self.rest.next() {
            Some(']') => return Ok(Condition::Attribute { name, test: None, ignores_case: false }),
            Some('=') => None,
            Some(operator @ ('~' | '|' | '^' | '$' | '*')) if self.rest.next_if_eq(&'=').is_some() => {
                Some(operator)
            }
            Some(other) => return Err(unexpected(other)),
            None => return Err("a `]` is missing".into()),
        };
        self.skip_space();
        let mut value = match self.rest.next_if(|c| matches!(c, '"' | '\'')) {
            Some(quote) => self.quoted(quote)?,
            None => self.name()?,
        };
        self.skip_space();
        let ignores_case = self.rest.next_if(|c| matches!(c, 'i' | 'I')).is_some();
        if ignores_case {
            value = value.to_lowercase();
            self.skip_space();
        }
        match self.rest.next() {
            Some(']') => {
                Ok(Condition::Attribute { name, test: Some(Test { operator, value }), ignores_case })
            }
            Some(other) => Err(unexpected(other)),
            None => Err("a `]` is missing".into()),
        }
    }

    fn pseudo_class(&mut self, level: usize) -> Read<Condition> {
        self.rest.next();
        let name = self.name()?.to_ascii_lowercase();
        let condition = match name.as_str() {
            "first-child" => return Ok(Condition::Nth { step: 0, offset: 1 }),
            "last-child" => return Ok(Condition::Last),
            "nth-child" if self.rest.next_if_eq(&'(').is_some() => self.nth()?,
            "not" if level < MAX_LEVELS && self.rest.next_if_eq(&'(').is_some() => {
                let mut others = Vec::new();
                loop {
                    self.skip_space();
                    others.push(self.compound(level + 1)?);
                    self.skip_space();
                    if self.rest.next_if_eq(&',').is_none() {
                        break Condition::Not(others);
                    }
                }
            }
            _ => {
                return Err(format!(
                    "cannot read `:{name}`; use :first-child, :last-child, :nth-child(2n+1) or :not(.name)"
                ));
            }
        };
        match self.rest.next() {
            Some(')') => Ok(condition),
            Some(other) => Err(unexpected(other)),
            None => Err("a `)` is missing".into()),
        }
    }

    /// Reads `3`, `odd`, `even` or `2n+1`.
    fn nth(&mut self) -> Read<Condition> {
        let mut text = String::new();
        while let Some(next) = self.rest.next_if(|c| *c != ')') {
            text.push(next);
        }
        let text: String = text.split_whitespace().collect::<String>().to_ascii_lowercase();
        let whole = |text: &str| {
            let number = text.strip_prefix('+').unwrap_or(text).parse::<i32>().map(i64::from);
            number.map_err(|_| "cannot read the place; write `3`, `odd`, `even` or `2n+1`".to_owned())
        };
        let (step, offset) = match text.as_str() {
            "odd" => (2, 1),
            "even" => (2, 0),
            text => match text.split_once('n') {
                None => (0, whole(text)?),
                Some((step, offset)) => {
                    let step = match step {
                        "" | "+" => 1,
                        "-" => -1,
                        step => whole(step)?,
                    };
                    (step, if offset.is_empty() { 0 } else { whole(offset)? })
                }
            },
        };
        Ok(Condition::Nth { step, offset })
    }

    /// Reads a name; `\` before a character makes it part of the name.
    fn name(&mut self) -> Read<String> {
        let mut name = String::new();
        loop {
            if let Some(part) = self.rest.next_if(|c| is_of_name(*c)) {
                name.push(part);
            } else if self.rest.next_if_eq(&'\\').is_some() {
                name.extend(self.rest.next());
            } else {
                break;
            }
        }
        match (name.is_empty(), self.rest.peek()) {
            (false, _) => Ok(name),
            (true, Some(other)) => Err(unexpected(*other)),
            (true, None) => Err("it ends where a name is expected".into()),
        }
    }

    fn quoted(&mut self, quote: char) -> Read<String> {
        let mut text = String::new();
        loop {
            match self.rest.next() {
                Some(end) if end == quote => return Ok(text),
                Some('\\') => text.extend(self.rest.next()),
                Some(other) => text.push(other),
                None => return Err(format!("a `{quote}` is missing")),
            }
        }
    }

    fn skip_space(&mut self) -> bool {
        let mut has_space = false;
        while self.rest.next_if(char::is_ascii_whitespace).is_some() {
            has_space = true;
        }
        has_space
    }
}

fn is_of_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_') || !letter.is_ascii()
}

fn unexpected(letter: char) -> String {
    format!("unexpected `{letter}`")
}
