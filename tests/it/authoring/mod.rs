//! The work of authors on the command line: begin a script, try it, look into it.

mod new;
mod port;
mod repl;
mod run;
