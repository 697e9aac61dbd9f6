//! The syntax tree.

/// The maximum depth of the tree, for nested expressions and for nested statements.
pub(super) const MAX_DEPTH: u16 = 60;

#[derive(Debug, Clone)]
pub(crate) struct Expr {
    pub(crate) kind: ExprKind,
    pub(crate) line: usize,
}

#[derive(Debug, Clone)]
pub(crate) enum ExprKind {
    Name(String),
    Int(i64),
    /// A float, or an integer that does not fit 64 bits, in Rhai's syntax.
    Float(String),
    Text(String),
    Bytes(String),
    Format(Vec<FormatPart>),
    Bool(bool),
    None,
    Ellipsis,
    Attribute(Box<Expr>, String),
    Index(Box<Expr>, Box<Expr>),
    Slice(Option<Box<Expr>>, Option<Box<Expr>>, Option<Box<Expr>>),
    Call(Box<Expr>, Vec<Arg>),
    Unary(UnaryOp, Box<Expr>),
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    Logic(BoolOp, Vec<Expr>),
    Compare(Box<Expr>, Vec<(CompareOp, Expr)>),
    Choice {
        condition: Box<Expr>,
        then: Box<Expr>,
        otherwise: Box<Expr>,
    },
    Lambda(Vec<Param>, Box<Expr>),
    List(Vec<Expr>),
    Tuple(Vec<Expr>),
    Set(Vec<Expr>),
    /// The key is absent for `**value`.
    Dict(Vec<(Option<Expr>, Expr)>),
    ListOf(Box<Expr>, Vec<Comprehension>),
    SetOf(Box<Expr>, Vec<Comprehension>),
    Generator(Box<Expr>, Vec<Comprehension>),
    DictOf(Box<Expr>, Box<Expr>, Vec<Comprehension>),
    Await(Box<Expr>),
    Yield(Option<Box<Expr>>),
    YieldFrom(Box<Expr>),
    Starred(Box<Expr>),
    Walrus(String, Box<Expr>),
}

#[derive(Debug, Clone)]
pub(crate) enum FormatPart {
    Text(String),
    Value { value: Expr, conversion: Option<char>, format: Vec<FormatPart>, is_debug: Option<String> },
}

#[derive(Debug, Clone)]
pub(crate) struct Arg {
    pub(crate) name: Option<String>,
    pub(crate) star: Star,
    pub(crate) value: Expr,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Star {
    None,
    List,
    Map,
}

#[derive(Debug, Clone)]
pub(crate) struct Comprehension {
    pub(crate) target: Expr,
    pub(crate) iter: Expr,
    pub(crate) conditions: Vec<Expr>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnaryOp {
    Not,
    Minus,
    Plus,
    Invert,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BinaryOp {
    Add,
    Sub,
    Mul,
    Div,
    FloorDiv,
    Mod,
    Pow,
    MatMul,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRight,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BoolOp {
    And,
    Or,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CompareOp {
    Eq,
    NotEq,
    Less,
    LessEq,
    Greater,
    GreaterEq,
    In,
    NotIn,
    Is,
    IsNot,
}

#[derive(Debug, Clone)]
pub(crate) struct Param {
    pub(crate) name: String,
    pub(crate) annotation: Option<Expr>,
    pub(crate) default: Option<Expr>,
    pub(crate) kind: ParamKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ParamKind {
    Plain,
    List,
    Map,
}

#[derive(Debug, Clone)]
pub(crate) struct Stmt {
    pub(crate) kind: StmtKind,
    /// The first line, counted from 1.
    pub(crate) line: usize,
    /// The last line of the statement; for a compound statement, the line of its colon.
    pub(crate) end_line: usize,
}

#[derive(Debug, Clone)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) params: Vec<Param>,
    pub(crate) body: Vec<Stmt>,
    pub(crate) decorators: Vec<Expr>,
    /// The line of the colon before the body.
    pub(crate) header_end: usize,
}

#[derive(Debug, Clone)]
pub(crate) struct Class {
    pub(crate) name: String,
    pub(crate) bases: Vec<Arg>,
    pub(crate) body: Vec<Stmt>,
    pub(crate) decorators: Vec<Expr>,
}

#[derive(Debug, Clone)]
pub(crate) struct Handler {
    pub(crate) types: Option<Expr>,
    pub(crate) name: Option<String>,
    pub(crate) body: Vec<Stmt>,
    pub(crate) line: usize,
}

#[derive(Debug, Clone)]
pub(crate) enum StmtKind {
    Expr(Expr),
    Assign {
        targets: Vec<Expr>,
        value: Expr,
    },
    Augmented {
        target: Expr,
        op: BinaryOp,
        value: Expr,
    },
    Annotated {
        target: Expr,
        annotation: Expr,
        value: Option<Expr>,
    },
    Return(Option<Expr>),
    Raise(Option<Expr>),
    /// The `if` branch and each `elif` branch, with their lines.
    If {
        branches: Vec<(Expr, Vec<Stmt>, usize)>,
        otherwise: Vec<Stmt>,
    },
    For {
        target: Expr,
        iter: Expr,
        body: Vec<Stmt>,
        otherwise: Vec<Stmt>,
    },
    While {
        condition: Expr,
        body: Vec<Stmt>,
        otherwise: Vec<Stmt>,
    },
    Try {
        body: Vec<Stmt>,
        handlers: Vec<Handler>,
        otherwise: Vec<Stmt>,
        finally: Vec<Stmt>,
    },
    With {
        items: Vec<(Expr, Option<Expr>)>,
        body: Vec<Stmt>,
    },
    Match {
        subject: Expr,
        cases: Vec<(Expr, Option<Expr>, Vec<Stmt>, usize)>,
    },
    Function(Function),
    Class(Class),
    /// The modules and their aliases.
    Import(Vec<(String, Option<String>)>),
    ImportFrom {
        module: String,
        names: Vec<(String, Option<String>)>,
    },
    Delete(Vec<Expr>),
    Assert(Expr, Option<Expr>),
    /// `global` or `nonlocal` with its names.
    Outer(Vec<String>),
    /// `type X = …`.
    TypeAlias,
    Pass,
    Break,
    Continue,
}

impl Expr {
    /// Returns the name if the expression is a name.
    pub(crate) fn as_name(&self) -> Option<&str> {
        match &self.kind {
            ExprKind::Name(name) => Some(name),
            _ => None,
        }
    }

    /// Returns the text if the expression is a text literal.
    pub(crate) fn as_text(&self) -> Option<&str> {
        match &self.kind {
            ExprKind::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the dotted path, or an empty text for any other expression.
    pub(crate) fn path_or_empty(&self) -> String {
        self.path().unwrap_or_default()
    }

    /// Returns the dotted path of names and attributes, such as `a.b.c`.
    pub(crate) fn path(&self) -> Option<String> {
        match &self.kind {
            ExprKind::Name(name) => Some(name.clone()),
            ExprKind::Attribute(of, name) => Some(format!("{}.{name}", of.path()?)),
            _ => None,
        }
    }

    /// Returns the expression without `await`.
    pub(crate) fn awaited(&self) -> &Self {
        match &self.kind {
            ExprKind::Await(inner) => inner.awaited(),
            _ => self,
        }
    }

    /// Calls a function with each direct subexpression.
    pub(crate) fn children<'a>(&'a self, f: &mut dyn FnMut(&'a Self)) {
        match &self.kind {
            ExprKind::Attribute(of, _)
            | ExprKind::Unary(_, of)
            | ExprKind::Await(of)
            | ExprKind::YieldFrom(of)
            | ExprKind::Starred(of)
            | ExprKind::Walrus(_, of)
            | ExprKind::Yield(Some(of)) => f(of),
            ExprKind::Index(a, b) | ExprKind::Binary(_, a, b) => {
                f(a);
                f(b);
            }
            ExprKind::Slice(a, b, c) => [a, b, c].into_iter().flatten().for_each(|one| f(one)),
            ExprKind::Call(of, args) => {
                f(of);
                args.iter().for_each(|arg| f(&arg.value));
            }
            ExprKind::Logic(_, all) | ExprKind::List(all) | ExprKind::Tuple(all) | ExprKind::Set(all) => {
                all.iter().for_each(f);
            }
            ExprKind::Compare(first, others) => {
                f(first);
                others.iter().for_each(|(_, other)| f(other));
            }
            ExprKind::Choice { condition, then, otherwise } => {
                f(condition);
                f(then);
                f(otherwise);
            }
            ExprKind::Lambda(params, body) => {
                params.iter().filter_map(|param| param.default.as_ref()).for_each(&mut *f);
                f(body);
            }
            ExprKind::Dict(entries) => entries.iter().for_each(|(key, value)| {
                key.iter().for_each(&mut *f);
                f(value);
            }),
            ExprKind::ListOf(value, of) | ExprKind::SetOf(value, of) | ExprKind::Generator(value, of) => {
                f(value);
                of.iter().for_each(|one| one.children(f));
            }
            ExprKind::DictOf(key, value, of) => {
                f(key);
                f(value);
                of.iter().for_each(|one| one.children(f));
            }
            ExprKind::Format(parts) => FormatPart::values(parts, f),
            ExprKind::Name(_)
            | ExprKind::Int(_)
            | ExprKind::Float(_)
            | ExprKind::Text(_)
            | ExprKind::Bytes(_)
            | ExprKind::Bool(_)
            | ExprKind::None
            | ExprKind::Ellipsis
            | ExprKind::Yield(None) => {}
        }
    }

    /// Calls a function with this expression and each expression inside it.
    pub(crate) fn walk<'a>(&'a self, f: &mut dyn FnMut(&'a Self)) {
        f(self);
        self.children(&mut |child| child.walk(f));
    }
}

impl Comprehension {
    fn children<'a>(&'a self, f: &mut dyn FnMut(&'a Expr)) {
        f(&self.target);
        f(&self.iter);
        self.conditions.iter().for_each(f);
    }
}

impl FormatPart {
    fn values<'a>(parts: &'a [Self], f: &mut dyn FnMut(&'a Expr)) {
        for part in parts {
            if let Self::Value { value, format, .. } = part {
                f(value);
                Self::values(format, f);
            }
        }
    }
}

impl Stmt {
    /// Calls a function with each expression of the statement, without those of nested statements.
    pub(crate) fn expressions<'a>(&'a self, f: &mut dyn FnMut(&'a Expr)) {
        match &self.kind {
            StmtKind::Expr(value) | StmtKind::Return(Some(value)) | StmtKind::Raise(Some(value)) => f(value),
            StmtKind::Assign { targets, value } => {
                f(value);
                targets.iter().for_each(f);
            }
            StmtKind::Augmented { target, value, .. } => {
                f(value);
                f(target);
            }
            StmtKind::Annotated { target, value, .. } => {
                value.iter().for_each(&mut *f);
                f(target);
            }
            StmtKind::If { branches, .. } => branches.iter().for_each(|(condition, ..)| f(condition)),
            StmtKind::For { target, iter, .. } => {
                f(iter);
                f(target);
            }
            StmtKind::While { condition, .. } => f(condition),
            StmtKind::Try { handlers, .. } => {
                handlers.iter().filter_map(|handler| handler.types.as_ref()).for_each(f);
            }
            StmtKind::With { items, .. } => items.iter().for_each(|(value, name)| {
                f(value);
                name.iter().for_each(&mut *f);
            }),
            StmtKind::Match { subject, cases } => {
                f(subject);
                cases.iter().for_each(|(pattern, guard, ..)| {
                    f(pattern);
                    guard.iter().for_each(&mut *f);
                });
            }
            StmtKind::Function(function) => {
                function.decorators.iter().for_each(&mut *f);
                function.params.iter().filter_map(|param| param.default.as_ref()).for_each(f);
            }
            StmtKind::Delete(targets) => targets.iter().for_each(f),
            StmtKind::Assert(value, message) => {
                f(value);
                message.iter().for_each(f);
            }
            StmtKind::Return(None)
            | StmtKind::Raise(None)
            | StmtKind::Class(_)
            | StmtKind::Import(_)
            | StmtKind::ImportFrom { .. }
            | StmtKind::Outer(_)
            | StmtKind::TypeAlias
            | StmtKind::Pass
            | StmtKind::Break
            | StmtKind::Continue => {}
        }
    }

    /// Returns the blocks directly inside the statement, including the bodies of functions and classes.
    pub(crate) fn blocks(&self) -> Vec<&[Stmt]> {
        match &self.kind {
            StmtKind::If { branches, otherwise } => {
                let branches = branches.iter().map(|(_, body, _)| body.as_slice());
                branches.chain([otherwise.as_slice()]).collect()
            }
            StmtKind::For { body, otherwise, .. } | StmtKind::While { body, otherwise, .. } => {
                vec![body, otherwise]
            }
            StmtKind::Try { body, handlers, otherwise, finally } => {
                let handlers = handlers.iter().map(|handler| handler.body.as_slice());
                [body.as_slice(), otherwise].into_iter().chain(handlers).chain([finally.as_slice()]).collect()
            }
            StmtKind::With { body, .. } => vec![body],
            StmtKind::Match { cases, .. } => cases.iter().map(|(_, _, body, _)| body.as_slice()).collect(),
            StmtKind::Function(function) => vec![&function.body],
            StmtKind::Class(class) => vec![&class.body],
            _ => Vec::new(),
        }
    }

    /// Calls a function with this statement and each statement inside it.
    pub(crate) fn walk<'a>(&'a self, f: &mut dyn FnMut(&'a Self)) {
        f(self);
        for block in self.blocks() {
            block.iter().for_each(|one| one.walk(f));
        }
    }
}
