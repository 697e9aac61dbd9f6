//! The work of authors on the command line: begin a script, try it, look into it.

mod fmt;
mod new;
mod pipe;
mod port;
mod repl;
mod run;
