//! A parser for Python 3: tokens, a syntax tree of bounded depth, and errors with line and column.
//!
//! It supports the syntax up to Python 3.14 and accepts more than Python does: it checks the structure and
//! not the meaning.

mod ast;
mod error;
mod expression;
mod fstring;
mod lexer;
mod parser;
mod token;

pub(crate) use ast::{
    Arg, BinaryOp, BoolOp, Class, CompareOp, Comprehension, Expr, ExprKind, FormatPart, Function, Handler,
    Param, ParamKind, Star, Stmt, StmtKind, UnaryOp,
};
pub use error::SyntaxError;
pub(crate) use lexer::Comment;
pub(crate) use parser::{Module, parse};
