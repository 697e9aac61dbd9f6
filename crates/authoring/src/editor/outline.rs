//! The declarations of a text, with their scopes: functions, constants, imports and variables.

use super::scan::{Kind, Token, tokens};
use std::ops::Range;
use std::sync::Arc;
use valvehouse_dialect::value::Type;
use valvehouse_script_std::reference;

/// The tokens and declarations of a script's text.
#[derive(Debug, Clone)]
pub struct Sketch {
    pub(super) text: Arc<str>,
    /// The tokens without comments.
    pub(super) tokens: Vec<Token>,
    pub(super) comments: Vec<Range<usize>>,
    pub(super) functions: Vec<Function>,
    pub(super) constants: Vec<Constant>,
    pub(super) imports: Vec<Import>,
    pub(super) bindings: Vec<Binding>,
}

/// A function of the file.
#[derive(Debug, Clone)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) at: Range<usize>,
    pub(super) params: Vec<String>,
    /// The range from `fn` to the end of its body.
    pub(super) whole: Range<usize>,
    /// The text of the preceding comment.
    pub(super) doc: String,
}

impl Function {
    pub(super) fn signature(&self) -> String {
        format!("fn {}({})", self.name, self.params.join(", "))
    }
}

/// A constant at the top level.
#[derive(Debug, Clone)]
pub(super) struct Constant {
    pub(super) name: String,
    pub(super) at: Range<usize>,
    pub(super) whole: Range<usize>,
    pub(super) kind: Type,
    /// The keys, if its value is a map.
    pub(super) fields: Vec<Field>,
}

/// A key of such a map, for example a valve.
#[derive(Debug, Clone)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) at: Range<usize>,
    pub(super) kind: Type,
    /// The source of its value, in one line.
    pub(super) written: String,
    /// Its description.
    pub(super) doc: String,
}

/// An imported module.
#[derive(Debug, Clone)]
pub struct Import {
    /// The path, without quotes.
    pub path: String,
    /// The name after `as`.
    pub alias: String,
    /// The range of that name.
    pub at: Range<usize>,
    /// The range of the path.
    pub path_at: Range<usize>,
}

/// A name with its scope.
#[derive(Debug, Clone)]
pub(super) struct Binding {
    pub(super) name: String,
    pub(super) at: Range<usize>,
    pub(super) scope: Range<usize>,
    pub(super) value: Value,
}

/// The value of a name, as far as it can be inferred.
#[derive(Debug, Clone)]
pub(super) enum Value {
    Parameter {
        function: String,
        has_args: bool,
    },
    /// The value of these tokens.
    Is(Range<usize>),
    /// An element of the value of these tokens.
    ElementOf(Range<usize>),
    /// A closure's parameter, passed by the method before this bracket.
    GivenBy(usize),
    Caught,
    Unknown,
}

/// A symbol of a file's outline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symbol {
    /// Its name.
    pub name: String,
    /// The rest of its signature.
    pub detail: String,
    /// Its kind.
    pub kind: SymbolKind,
    /// The range of the whole declaration.
    pub whole: Range<usize>,
    /// The range of its name.
    pub at: Range<usize>,
    /// The symbols within it.
    pub below: Vec<Symbol>,
}

/// The kind of a symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SymbolKind {
    /// A function that the host does not call.
    Function,
    /// A function that the host calls.
    Hook,
    /// A constant.
    Constant,
    /// A key of a constant: a valve, an argument.
    Field,
    /// An imported module.
    Module,
}

impl Sketch {
    /// Splits a text into tokens and finds its declarations.
    pub fn of(text: &str) -> Self {
        let all = tokens(text);
        let comments: Vec<Range<usize>> =
            all.iter().filter(|token| token.kind == Kind::Comment).map(|token| token.at.clone()).collect();
        let mut sketch = Self {
            text: text.into(),
            tokens: without_comments(all),
            comments,
            functions: Vec::new(),
            constants: Vec::new(),
            imports: Vec::new(),
            bindings: Vec::new(),
        };
        for place in 0..sketch.tokens.len() {
            sketch.declare(place);
        }
        sketch
    }

    /// Returns the imported modules.
    pub fn imports(&self) -> &[Import] {
        &self.imports
    }

    /// Returns the declarations of the top level, in source order.
    pub fn symbols(&self) -> Vec<Symbol> {
        let field = |field: &Field| Symbol {
            name: field.name.clone(),
            detail: field.written.clone(),
            kind: SymbolKind::Field,
            whole: field.at.clone(),
            at: field.at.clone(),
            below: Vec::new(),
        };
        let constants = self.constants.iter().map(|constant| Symbol {
            name: constant.name.clone(),
            detail: constant.kind.name(),
            kind: SymbolKind::Constant,
            whole: constant.whole.clone(),
            at: constant.at.clone(),
            below: constant.fields.iter().map(field).collect(),
        });
        let functions = self.functions.iter().map(|function| Symbol {
            name: function.name.clone(),
            detail: format!("({})", function.params.join(", ")),
            kind: if reference::entry(&function.name).is_some() {
                SymbolKind::Hook
            } else {
                SymbolKind::Function
            },
            whole: function.whole.clone(),
            at: function.at.clone(),
            below: Vec::new(),
        });
        let imports = self.imports.iter().map(|import| Symbol {
            name: import.alias.clone(),
            detail: import.path.clone(),
            kind: SymbolKind::Module,
            whole: import.path_at.start..import.at.end,
            at: import.at.clone(),
            below: Vec::new(),
        });
        let mut all: Vec<Symbol> = imports.chain(constants).chain(functions).collect();
        all.sort_by_key(|symbol| symbol.at.start);
        all
    }

    /// Returns the text of a token; "" after the last.
    pub(super) fn word(&self, place: usize) -> &str {
        self.tokens.get(place).map_or("", |token| &self.text[token.at.clone()])
    }

    pub(super) fn is_word(&self, place: usize) -> bool {
        self.tokens.get(place).is_some_and(|token| token.kind == Kind::Word)
    }

    /// Returns the token that closes a bracket; the number of tokens if it is not closed.
    pub(super) fn end_of(&self, place: usize) -> usize {
        self.tokens.get(place).and_then(|token| token.pair).unwrap_or(self.tokens.len())
    }

    fn byte(&self, place: usize) -> usize {
        self.tokens.get(place).map_or(self.text.len(), |token| token.at.end)
    }

    fn at(&self, place: usize) -> Range<usize> {
        self.tokens.get(place).map_or(self.text.len()..self.text.len(), |token| token.at.clone())
    }

    fn declare(&mut self, place: usize) {
        if !self.is_word(place) {
            if matches!(self.word(place), "|") {
                self.closure(place);
            }
            return;
        }
        match self.word(place) {
            "fn" if self.is_word(place + 1) => self.function(place),
            "const" if self.is_word(place + 1) && self.tokens[place].within.is_none() => self.constant(place),
            "let" | "const" if self.is_word(place + 1) => {
                let (from, to) = (place + 3, self.statement_end(place));
                let value = match self.word(place + 2) {
                    "=" => Value::Is(from..to),
                    _ => Value::Unknown,
                };
                let scope = self.at(place + 1).start..self.block_end(place);
                self.bind(place + 1, scope, value);
            }
            "import" if self.is_import(place) => self.imports.push(Import {
                path: self.word(place + 1).trim_matches(['"', '`']).to_owned(),
                alias: self.word(place + 3).to_owned(),
                at: self.at(place + 3),
                path_at: self.at(place + 1),
            }),
            "for" => self.loop_variables(place),
            "catch" if self.word(place + 1) == "(" && self.is_word(place + 2) => {
                let block = self.end_of(place + 1) + 1;
                let scope = self.at(place + 2).start..self.byte(self.end_of(block));
                self.bind(place + 2, scope, Value::Caught);
            }
            _ => {}
        }
    }

    /// Returns `true` at `import "lib/words" as words`.
    fn is_import(&self, place: usize) -> bool {
        let is_path = self.tokens.get(place + 1).is_some_and(|token| token.kind == Kind::Text);
        is_path && self.word(place + 2) == "as" && self.is_word(place + 3)
    }

    fn bind(&mut self, place: usize, scope: Range<usize>, value: Value) {
        let (name, at) = (self.word(place).to_owned(), self.at(place));
        self.bindings.push(Binding { name, at, scope, value });
    }

    fn function(&mut self, place: usize) {
        // `fn text.shout()` declares a method of texts.
        let name = if self.word(place + 2) == "." && self.is_word(place + 3) { place + 3 } else { place + 1 };
        if self.word(name + 1) != "(" {
            return;
        }
        let close = self.end_of(name + 1);
        // An unclosed parameter list ends where the body begins.
        let body = (name + 2..self.tokens.len()).find(|next| matches!(self.word(*next), "{" | "fn"));
        let close = close.min(body.unwrap_or(self.tokens.len()));
        let params: Vec<usize> = (name + 2..close).filter(|param| self.is_word(*param)).collect();
        let end = match body.filter(|body| self.word(*body) == "{") {
            Some(body) => self.byte(self.end_of(body)),
            None => self.byte(close),
        };
        let names: Vec<String> = params.iter().map(|param| self.word(*param).to_owned()).collect();
        let function = self.word(name).to_owned();
        let has_args = names.first().is_some_and(|first| first == "args");
        for param in params {
            let value = Value::Parameter { function: function.clone(), has_args };
            self.bind(param, self.at(name).start..end, value);
        }
        let whole = self.at(place).start..end;
        let doc = self.comment_before(whole.start);
        self.functions.push(Function { name: function, at: self.at(name), params: names, whole, doc });
    }

    fn constant(&mut self, place: usize) {
        let end = self.statement_end(place);
        let value = place + 3..end;
        let (name, at) = (self.word(place + 1).to_owned(), self.at(place + 1));
        let whole = self.at(place).start..self.byte(end).max(at.end);
        let fields = if self.word(value.start) == "#{" { self.fields(value.start) } else { Vec::new() };
        self.constants.push(Constant { name, at, whole, kind: self.literal(value.start), fields });
    }

    /// Returns the keys of a map literal.
    fn fields(&self, map: usize) -> Vec<Field> {
        let keys = (map + 1..self.end_of(map).min(self.tokens.len())).filter(|place| {
            self.tokens[*place].within == Some(map)
                && self.word(place + 1) == ":"
                && matches!(self.tokens[*place].kind, Kind::Word | Kind::Text)
        });
        keys.map(|place| {
            let value = place + 2;
            let below = if self.word(value) == "#{" { self.fields(value) } else { Vec::new() };
            let subfield = |key: &str| below.iter().find(|field| field.name == key);
            let doc = subfield("description").map(|field| field.written.trim_matches('"').to_owned());
            let shown = subfield("value").map(|field| field.written.clone());
            Field {
                name: self.word(place).trim_matches('"').to_owned(),
                at: self.at(place),
                kind: self.kind_of_field(value, subfield("value"), subfield("type")),
                written: shown.unwrap_or_else(|| self.written(value)),
                doc: doc.unwrap_or_default(),
            }
        })
        .collect()
    }

    fn kind_of_field(&self, value: usize, of_value: Option<&Field>, named: Option<&Field>) -> Type {
        match (of_value, named.map(|field| field.written.trim_matches('"'))) {
            (_, Some("string")) => Type::Text,
            (_, Some("integer")) => Type::Integer,
            (_, Some("number" | "float")) => Type::Number,
            (_, Some("boolean")) => Type::Boolean,
            (_, Some("array")) => Type::Array,
            (_, Some("object")) => Type::Map,
            (Some(field), _) => field.kind,
            _ => self.literal(value),
        }
    }

    /// Returns the source of a value, in one line.
    fn written(&self, value: usize) -> String {
        const SHOWN: usize = 60;
        let pair = self.tokens.get(value).and_then(|token| token.pair);
        let end = pair.filter(|pair| *pair > value).unwrap_or(value);
        let negative = if self.word(value) == "-" { value + 1 } else { end };
        let text = &self.text[self.at(value).start..self.byte(negative)];
        valvehouse_core::text::shortened(text.split_whitespace().collect::<Vec<_>>().join(" "), SHOWN)
    }

    pub(super) fn literal(&self, value: usize) -> Type {
        match (self.tokens.get(value).map(|token| token.kind), self.word(value)) {
            (Some(Kind::Text), _) => Type::Text,
            (Some(Kind::Number), number) if number.contains('.') => Type::Number,
            (Some(Kind::Number), _) => Type::Integer,
            (_, "true" | "false") => Type::Boolean,
            (_, "-") => self.literal(value + 1),
            (_, "[") => Type::Array,
            (_, "#{") => Type::Map,
            _ => Type::Any,
        }
    }

    fn loop_variables(&mut self, place: usize) {
        let within = (place + 1..self.tokens.len().min(place + 8)).find(|next| self.word(*next) == "in");
        let Some(within) = within else { return };
        let depth = self.tokens[place].within;
        let body = (within + 1..self.tokens.len())
            .find(|next| self.word(*next) == "{" && self.tokens[*next].within == depth);
        let body = body.unwrap_or(self.tokens.len());
        let names: Vec<usize> = (place + 1..within).filter(|name| self.is_word(*name)).collect();
        for (nth, name) in names.into_iter().enumerate() {
            let scope = self.at(name).start..self.byte(self.end_of(body));
            let value = if nth == 0 { Value::ElementOf(within + 1..body) } else { Value::Unknown };
            self.bind(name, scope, value);
        }
    }

    /// Reads a closure `|m| …` at the start of an expression.
    fn closure(&mut self, place: usize) {
        let before = place.checked_sub(1).map_or("", |before| self.word(before));
        if !matches!(before, "" | "(" | "," | "=" | ":" | "{" | ";" | "[" | "return" | "=>") {
            return;
        }
        let Some(end) = (place + 1..self.tokens.len().min(place + 20)).find(|next| self.word(*next) == "|")
        else {
            return;
        };
        let names: Vec<usize> = (place + 1..end).filter(|name| self.is_word(*name)).collect();
        let bracket = self.tokens[place].within;
        for (nth, name) in names.into_iter().enumerate() {
            let scope_end = bracket.map_or(self.text.len(), |bracket| self.byte(self.end_of(bracket)));
            let value = match bracket {
                Some(bracket) if nth == 0 && self.word(bracket) == "(" => Value::GivenBy(bracket),
                _ => Value::Unknown,
            };
            self.bind(name, self.at(name).start..scope_end, value);
        }
    }

    /// Returns the token that ends the statement of a token.
    fn statement_end(&self, place: usize) -> usize {
        let within = self.tokens[place].within;
        let ends = |next: usize| {
            let is_same = self.tokens[next].within == within;
            is_same && matches!(self.word(next), ";" | "fn" | "let" | "const" | "import")
                || Some(next) == within.and_then(|open| self.tokens[open].pair)
        };
        (place + 1..self.tokens.len()).find(|next| ends(*next)).unwrap_or(self.tokens.len())
    }

    /// Returns the byte at which the block around a token ends.
    fn block_end(&self, place: usize) -> usize {
        self.tokens[place].within.map_or(self.text.len(), |open| self.byte(self.end_of(open)))
    }

    /// Returns the text of the comment lines directly before a position.
    fn comment_before(&self, at: usize) -> String {
        let mut lines = Vec::new();
        let mut end = at;
        for comment in self.comments.iter().rev().skip_while(|comment| comment.end > at) {
            let between = &self.text[comment.end..end];
            let text = &self.text[comment.clone()];
            if !between.trim().is_empty() || between.matches('\n').count() > 1 || !text.starts_with("//") {
                break;
            }
            lines.push(text.trim_start_matches('/').trim());
            end = comment.start;
        }
        lines.reverse();
        lines.join("\n")
    }
}

/// Removes the comments, and updates the indexes of brackets.
fn without_comments(all: Vec<Token>) -> Vec<Token> {
    let mut places = Vec::with_capacity(all.len());
    let mut next = 0;
    for token in &all {
        places.push(next);
        next += usize::from(token.kind != Kind::Comment);
    }
    let moved = |place: Option<usize>| place.map(|place| places[place]);
    let kept = all.into_iter().filter(|token| token.kind != Kind::Comment);
    kept.map(|token| Token { pair: moved(token.pair), within: moved(token.within), ..token }).collect()
}
