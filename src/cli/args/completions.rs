//! `valvehouse completions`

/// `valvehouse completions`
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  valvehouse completions bash > ~/.local/share/bash-completion/completions/valvehouse
  valvehouse completions zsh > ~/.zfunc/_valvehouse
  valvehouse completions fish > ~/.config/fish/completions/valvehouse.fish")]
pub(in crate::cli) struct Completions {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub(in crate::cli) shell: clap_complete::Shell,
}
