//! What authors do with scripts on the command line: begin one, try it, look into it.

mod new;
mod repl;
mod run;
