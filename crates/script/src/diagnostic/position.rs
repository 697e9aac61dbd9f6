//! The position of a problem in its source.

use super::finding::Diagnostic;
use rhai::Position;
use valvehouse_dialect::syntax::spans::{self, SpanKind};

impl Diagnostic {
    /// Sets the position.
    #[must_use]
    pub fn at(mut self, source: &str, position: Position) -> Self {
        self.line = position.line();
        self.column = position.position().or(position.line().map(|_| 1));
        if let Some(line) = self.line.and_then(|line| source.lines().nth(line - 1)) {
            self.excerpt = line.trim_end().to_owned();
        }
        self
    }

    /// Sets the position to the first occurrence of a word in the code, otherwise in the source.
    #[must_use]
    pub fn at_word(self, source: &str, word: &str) -> Self {
        match find_word(&spans::code_only(source), word) {
            Some(at) => self.at_byte(source, at),
            None => self.at_text(source, word),
        }
    }

    /// Sets the position to a word in the value of a key of the opening comment, otherwise to that key.
    #[must_use]
    pub(crate) fn at_frontmatter(self, source: &str, key: &str, word: &str) -> Self {
        let comment = spans::of(source).into_iter().find(|(piece, _)| *piece == SpanKind::Comment);
        let comment = comment.map_or("", |(_, range)| &source[..range.end]);
        let key = comment.match_indices(key).map(|(at, _)| at).find(|&at| {
            let line = comment[..at].rsplit_once('\n').map_or(&comment[..at], |(_, line)| line);
            let line = line.trim_start_matches("/*").trim_start();
            line.is_empty() && comment[at + key.len()..].starts_with(':')
        });
        let Some(key) = key else { return self.at_text(source, word) };
        let line = comment[key..].split_once('\n').map_or(&comment[key..], |(line, _)| line);
        let word =
            line.split_once(':').and_then(|(name, value)| Some(name.len() + 1 + find_word(value, word)?));
        self.at_byte(source, key + word.unwrap_or(0))
    }

    /// Sets the position to the first parameter of a function with this name.
    #[must_use]
    pub(crate) fn at_parameter(self, source: &str, function: &str, name: &str) -> Self {
        let code = spans::code_only(source);
        let place = function_at(&code, function).and_then(|at| Some(at + find_word(&code[at..], name)?));
        match place {
            Some(at) => self.at_byte(source, at),
            None => self.at_word(source, name),
        }
    }

    /// Sets the position to the first occurrence of a word in the source, including comments.
    fn at_text(self, source: &str, word: &str) -> Self {
        let found = source.lines().enumerate().find_map(|(index, line)| {
            let column = find_word(line, word)?;
            Some((index + 1, line[..column].chars().count() + 1))
        });
        match found {
            Some((line, column)) => match (u16::try_from(line), u16::try_from(column)) {
                (Ok(line), Ok(column)) => self.at(source, Position::new(line, column)),
                _ => self,
            },
            None => self,
        }
    }

    /// Sets the position to the definition of a function.
    #[must_use]
    pub fn at_function(self, source: &str, name: &str) -> Self {
        match function_at(&spans::code_only(source), name) {
            Some(at) => self.at_byte(source, at),
            None => self.at_word(source, name),
        }
    }

    /// Sets the position to a byte of the source.
    #[must_use]
    pub(crate) fn at_byte(self, source: &str, at: usize) -> Self {
        match position_at(source, at) {
            Some(position) => self.at(source, position),
            None => self,
        }
    }

    /// Sets the position to the end of a path of names, each searched after the one before; otherwise to the last
    /// name found.
    #[must_use]
    pub(crate) fn at_path(self, source: &str, path: &str) -> Self {
        let (code, mut from, mut found) = (spans::code_only(source), 0, None);
        for word in
            path.split(['.', '[', ']']).filter(|word| !word.is_empty() && word.parse::<u32>().is_err())
        {
            let Some(at) = find_key(&code, source, from, word) else { break };
            found = Some(at);
            from = at + word.len();
        }
        match found {
            Some(at) => self.at_byte(source, at),
            None => self,
        }
    }
}

/// Moves a problem to the nearest place of a word or sign in its line: the parser notices many only at the next one.
pub(super) fn at_word_nearby(problem: Diagnostic, source: &str, word: &str) -> Diagnostic {
    let Some(column) = problem.column else { return problem };
    let columns = places_of(&problem.excerpt, word).map(|at| problem.excerpt[..at].chars().count() + 1);
    let nearest = columns.min_by_key(|at| at.abs_diff(column));
    at_column(problem, source, nearest)
}

/// Moves a problem to the first word of its line.
pub(super) fn at_first_word(problem: Diagnostic, source: &str) -> Diagnostic {
    let text = &problem.excerpt;
    let column = text.chars().count() - text.trim_start().chars().count() + 1;
    at_column(problem, source, Some(column))
}

fn at_column(problem: Diagnostic, source: &str, column: Option<usize>) -> Diagnostic {
    let place = problem.line.zip(column).and_then(|(line, column)| {
        Some(Position::new(u16::try_from(line).ok()?, u16::try_from(column).ok()?))
    });
    match place {
        Some(place) => problem.at(source, place),
        None => problem,
    }
}

/// Returns the byte position of a function's name after `fn`.
fn function_at(code: &str, name: &str) -> Option<usize> {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    code.match_indices(name).find_map(|(at, _)| {
        let before = code[..at].trim_end();
        let is_whole = before.len() < at && !code[at + name.len()..].starts_with(is_part);
        let word = before.strip_suffix("fn").filter(|before| !before.ends_with(is_part));
        word.filter(|_| is_whole).map(|_| at)
    })
}

/// Returns the byte position of a word after another: in the code, or as a quoted key or text.
fn find_key(code: &str, source: &str, from: usize, word: &str) -> Option<usize> {
    let in_code = find_word(&code[from..], word).map(|at| from + at);
    let quoted = source[from..].find(&format!("\"{word}\"")).map(|at| from + at + 1);
    [in_code, quoted].into_iter().flatten().min()
}

fn find_word(line: &str, word: &str) -> Option<usize> {
    places_of(line, word).next()
}

/// Returns the byte positions of a sign, or of a word that is not a part of another one.
fn places_of(line: &str, word: &str) -> impl Iterator<Item = usize> {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    let is_whole = move |at: &usize| {
        !word.starts_with(is_part)
            || !line[..*at].ends_with(is_part) && !line[at + word.len()..].starts_with(is_part)
    };
    line.match_indices(word).map(|(at, _)| at).filter(is_whole)
}

/// Returns the line and column of a byte; `None` beyond the limits of Rhai's positions.
pub(super) fn position_at(source: &str, at: usize) -> Option<Position> {
    let before = &source[..at];
    let line = u16::try_from(before.matches('\n').count() + 1).ok()?;
    let column = u16::try_from(before.rsplit('\n').next()?.chars().count() + 1).ok()?;
    Some(Position::new(line, column))
}
