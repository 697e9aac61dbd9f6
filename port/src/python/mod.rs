//! Python as the translation sees it: a syntax tree of bounded depth with lines, and errors with line and column.
//!
//! ruff's parser reads the files; it knows the syntax of all versions of Python 3.

mod ast;
mod error;
mod reader;

pub(crate) use ast::{
    Arg, BinaryOp, BoolOp, Class, CompareOp, Comprehension, Expr, ExprKind, FormatPart, Function, Handler,
    Param, ParamKind, Star, Stmt, StmtKind, UnaryOp,
};
pub use error::SyntaxError;
pub(crate) use reader::{Comment, Module, parse};
