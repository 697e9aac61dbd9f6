//! Suggestions of the completion.

use valvehouse_dialect::value::Type;
use valvehouse_script_std::reference::{self, EntryPoint, Form, Function, KeyDoc, ScriptRole, Word};

/// A suggestion of the completion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suggestion {
    /// The text that is shown and searched.
    pub label: String,
    /// Its kind.
    pub kind: SuggestionKind,
    /// An additional line: a signature or a kind.
    pub detail: String,
    /// The documentation, in Markdown.
    pub doc: String,
    /// The text to insert, with the placeholders `$0` and `${1:name}`.
    pub insert: String,
}

/// The kind of a suggestion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SuggestionKind {
    /// A function.
    Function,
    /// A method.
    Method,
    /// A property after a dot.
    Property,
    /// A valve, or another key that the file declares.
    Field,
    /// A variable or parameter.
    Variable,
    /// A constant.
    Constant,
    /// A module.
    Module,
    /// A keyword of the language, or a key of the opening comment.
    Keyword,
    /// A snippet to fill in.
    Frame,
    /// One of a few possible values.
    Value,
}

impl Suggestion {
    pub(super) fn new(label: impl Into<String>, kind: SuggestionKind, detail: impl Into<String>) -> Self {
        let label = label.into();
        Self { insert: escaped(&label), label, kind, detail: detail.into(), doc: String::new() }
    }

    pub(super) fn doc(self, doc: impl Into<String>) -> Self {
        Self { doc: doc.into(), ..self }
    }

    pub(super) fn insert(self, insert: impl Into<String>) -> Self {
        Self { insert: insert.into(), ..self }
    }

    /// Creates the suggestion of a function of the host or the language. The first overload describes it.
    pub(super) fn function(function: &Function) -> Self {
        let kind = SuggestionKind::Function;
        Self::new(&function.name, kind, function.signature())
            .doc(doc_of(function))
            .insert(call(&function.name, function.arguments().len()))
    }

    pub(super) fn word(word: &Word, of: Type) -> Self {
        let signature = word.signature(&of.name());
        match &word.form {
            Form::Method(params) => Self::new(&word.name, SuggestionKind::Method, signature)
                .doc(&word.doc)
                .insert(call(&word.name, params.len())),
            Form::Key | Form::Property => {
                Self::new(&word.name, SuggestionKind::Property, signature).doc(&word.doc)
            }
        }
    }

    pub(super) fn key(key: &KeyDoc, kind: SuggestionKind, behind: &str) -> Self {
        let detail = if key.values.is_empty() { key.kind.name() } else { key.values.join(" or ") };
        Self::new(key.name, kind, detail).doc(key.doc).insert(format!("{}{behind}", escaped(key.name)))
    }

    /// Creates the snippet of a function that the host calls, without `fn` if it is already typed.
    pub(super) fn entry(entry: &EntryPoint, has_fn: bool) -> Self {
        let subject = entry.subject.map_or("", |(name, _)| name);
        let params = if entry.name == "handler" { "args, ctx" } else { subject };
        let fun = if has_fn { "" } else { "fn " };
        let begins =
            if entry.begins.is_empty() { String::new() } else { format!("\n    {}", escaped(entry.begins)) };
        let what = match entry.role {
            ScriptRole::Filter => "hook",
            ScriptRole::Tool => "tool",
            ScriptRole::Pipe => "model",
            ScriptRole::Action => "action",
            ScriptRole::Callback => "callback",
        };
        Self::new(entry.name, SuggestionKind::Frame, format!("{what}: fn {}({params})", entry.name))
            .doc(entry.doc)
            .insert(format!("{fun}{}({params}) {{\n    $0{begins}\n}}", entry.name))
    }
}

/// Returns a function's documentation, with the capability it needs.
pub(super) fn doc_of(function: &Function) -> String {
    let needs = function.capability.map(|capability| format!("Needs `requirements: {}`.", capability.name()));
    let is_of_rhai = function.origin == reference::FunctionOrigin::Rhai;
    let whose = is_of_rhai.then(|| "*Part of Rhai.*".to_owned());
    [Some(function.doc.clone()), needs, whose].into_iter().flatten().collect::<Vec<_>>().join("\n\n")
}

fn call(name: &str, count: usize) -> String {
    if count == 0 { format!("{}()", escaped(name)) } else { format!("{}($0)", escaped(name)) }
}

/// Escapes a text for use in a snippet.
pub(super) fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('$', "\\$").replace('}', "\\}")
}
