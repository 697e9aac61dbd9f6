//! Values with properties and methods: `body`, its messages, an event, a caught error.

use super::function::{Function, FunctionOrigin, Param, doc_of, functions};
use super::keys::{self, Keys, is_list, is_map, type_of_engine};
use crate::engine;
use rhai::FuncMetadata;
use std::sync::OnceLock;
use valvehouse_dialect::value::{self, Shape, Type};

/// A value with properties and methods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handle {
    /// Its name in the reference, often that of the parameter that holds it.
    pub name: &'static str,
    /// Its description.
    pub about: &'static str,
    /// Its words: computed properties first, then keys.
    pub words: Vec<Word>,
    /// `true` if it may have other keys; otherwise an unknown key is a mistake.
    pub is_open: bool,
    /// `true` if it is a list.
    pub is_list: bool,
    /// The type of its elements in a loop.
    pub element: Type,
}

/// A property or method of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// The word.
    pub name: String,
    /// Its syntax.
    pub form: Form,
    /// The type of its value, or of the method's result.
    pub kind: Type,
    /// `true` if it can be assigned.
    pub is_writable: bool,
    /// Its documentation.
    pub doc: String,
}

/// The syntax of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    /// A JSON key.
    Key,
    /// A property that the host computes, read like a key.
    Property,
    /// A method with these arguments.
    Method(Vec<Param>),
}

impl Handle {
    /// Returns the word of this name; of several methods the one with the fewest arguments.
    pub fn word(&self, name: &str) -> Option<&Word> {
        self.words.iter().find(|word| word.name == name)
    }
}

impl Word {
    /// Returns the signature, such as `message.text: text` or `messages.last(role: text) -> message`.
    pub fn signature(&self, of: &str) -> String {
        match &self.form {
            Form::Key | Form::Property => format!("{of}.{}: {}", self.name, self.kind),
            Form::Method(params) => {
                let params: Vec<String> = params.iter().map(Param::written).collect();
                let returns = match self.kind {
                    Type::Nothing => String::new(),
                    kind => format!(" -> {kind}"),
                };
                format!("{of}.{}({}){returns}", self.name, params.join(", "))
            }
        }
    }
}

/// Returns all handles.
pub fn handles() -> &'static [Handle] {
    static ALL: OnceLock<Vec<Handle>> = OnceLock::new();
    ALL.get_or_init(|| {
        let accessors = accessors();
        keys::HANDLES.iter().map(|keys| read(keys, &accessors)).collect()
    })
}

/// Returns the handle of this name.
pub fn handle(name: &str) -> Option<&'static Handle> {
    handles().iter().find(|handle| handle.name == name)
}

fn read(keys: &Keys, accessors: &[Accessor]) -> Handle {
    let mut words = computed(keys.shape);
    words.extend(registered(keys.name, accessors));
    words.extend(methods(keys.name));
    for key in keys.words {
        if !words.iter().any(|word| word.name == key.name) {
            let (name, doc) = (key.name.to_owned(), key.doc.to_owned());
            words.push(Word { name, form: Form::Key, kind: key.kind, is_writable: key.is_writable, doc });
        }
    }
    Handle {
        name: keys.name,
        about: keys.about,
        words,
        is_open: keys.is_open,
        is_list: keys.is_list,
        element: keys.element,
    }
}

/// Returns the properties that live maps of this shape compute.
fn computed(shape: Option<Shape>) -> Vec<Word> {
    let own = value::PROPERTIES.iter().filter(|property| shape.is_some_and(|shape| property.is_of(shape)));
    own.map(|property| Word {
        name: property.name.to_owned(),
        form: Form::Property,
        kind: property.kind,
        is_writable: property.is_writable,
        doc: property.about.to_owned(),
    })
    .collect()
}

/// A getter or setter that is registered for a type, such as `get$system`.
struct Accessor {
    /// The engine's name of the type.
    of: String,
    name: String,
    writes: bool,
    kind: Option<Type>,
    doc: String,
}

/// Returns the getters and setters that are registered with an engine.
fn accessors() -> Vec<Accessor> {
    let read = |function: &FuncMetadata| {
        let (way, name) = function.name.split_once('$')?;
        Some(Accessor {
            of: function.params_info.first()?.split_once("&mut ")?.1.to_owned(),
            name: name.to_owned(),
            writes: way == "set",
            kind: type_of_engine(&function.return_type),
            doc: doc_of(&function.comments),
        })
    };
    engine::new().collect_fn_metadata(None, |info| read(info.metadata), false)
}

/// Returns the properties that are registered for the type itself.
fn registered(handle: &str, accessors: &[Accessor]) -> Vec<Word> {
    let own = || accessors.iter().filter(|accessor| accessor.of == handle);
    let read = own().filter(|accessor| !accessor.writes && !accessor.name.contains('$'));
    let mut words: Vec<Word> = read
        .map(|accessor| Word {
            name: accessor.name.clone(),
            form: Form::Property,
            kind: accessor.kind.unwrap_or(Type::Any),
            is_writable: own().any(|other| other.writes && other.name == accessor.name),
            doc: accessor.doc.clone(),
        })
        .collect();
    words.sort_by(|a, b| a.name.cmp(&b.name));
    words
}

/// Returns the host's methods of a handle.
fn methods(handle: &str) -> Vec<Word> {
    let is_mine = |function: &&Function| {
        function.is_method
            && function.origin == FunctionOrigin::Host
            && function.params[0].kind.name() == handle
    };
    functions().iter().filter(is_mine).map(word_of).collect()
}

fn word_of(function: &Function) -> Word {
    Word {
        name: function.name.clone(),
        form: Form::Method(function.arguments().to_vec()),
        kind: function.returns,
        is_writable: false,
        doc: function.doc.clone(),
    }
}

/// Returns all words of a value of this kind: its own, then those of lists, maps and texts. Returns none for an
/// unknown kind.
pub fn members(kind: Type) -> Vec<Word> {
    let own: &[Word] = match kind {
        Type::Handle(name) => handle(name).map_or(&[], |handle: &Handle| &handle.words),
        Type::Any | Type::Nothing => return Vec::new(),
        _ => &[],
    };
    let mut words = own.to_vec();
    for function in functions().iter().filter(|function| fits(function, kind)) {
        let is_there = words.iter().any(|word: &Word| word.name == function.name && word.form != Form::Key);
        let more_arguments = words.iter().any(|word| {
            word.name == function.name
                && matches!(&word.form, Form::Method(params) if params.len() != function.arguments().len())
        });
        if !is_there || more_arguments && !own.iter().any(|word| word.name == function.name) {
            words.push(word_of(function));
        }
    }
    words
}

/// Returns `true` if a function is a method of values of this kind.
fn fits(function: &Function, kind: Type) -> bool {
    let Some(first) = function.params.first().filter(|_| function.is_method) else { return false };
    match first.kind {
        Type::Any => function.origin == FunctionOrigin::Host && (is_list(kind) || is_map(kind)),
        Type::Array => is_list(kind),
        Type::Map => is_map(kind),
        Type::Number => matches!(kind, Type::Number | Type::Integer),
        Type::Integer => matches!(kind, Type::Number | Type::Integer),
        other => other == kind,
    }
}
