//! `ebb completion`.

use std::io::Write;
use std::process::ExitCode;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

/// Print the completion script of a shell
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ebb completion bash | sudo tee /usr/share/bash-completion/completions/ebb
  ebb completion zsh > ~/.zfunc/_ebb
  ebb completion fish > ~/.config/fish/completions/ebb.fish")]
pub struct Completion {
    /// The shell
    shell: Shell,
}

/// The value of a setting follows its name at once: bash would put a space between them.
const NO_SPACE: &str = r#"
_ebb_setting() { _ebb "$@"; [[ "${COMPREPLY[0]-}" != *= ]] || compopt -o nospace; }
complete -F _ebb_setting -o nosort -o bashdefault -o default ebb
"#;

impl Completion {
    /// Writes the script to standard output.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        std::io::stdout().write_all(&self.script())?;
        Ok(ExitCode::SUCCESS)
    }

    fn script(&self) -> Vec<u8> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut crate::Ebb::command(), "ebb", &mut script);
        if self.shell == Shell::Bash {
            script.extend_from_slice(NO_SPACE.as_bytes());
        }
        script
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shell_learns_every_command() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Elvish, Shell::PowerShell] {
            let script = Completion { shell }.script();
            let script = String::from_utf8(script).expect("text");
            for word in ["router", "traffic", "completion", "replay", "receive"] {
                assert!(script.contains(word), "{shell}: {word}");
            }
            // The generators of the others complete no values.
            let values = matches!(shell, Shell::Bash | Shell::Zsh | Shell::Fish);
            assert_eq!(script.contains("server.queue_len="), values, "{shell}");
        }
    }
}
