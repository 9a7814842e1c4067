use super::*;

#[test]
fn the_program_of_a_plans_command_is_looked_for_unless_a_shell_resolves_it() {
    for (command, name) in [
        ("sh -c 'exec server --port {port}'", "sh"),
        ("/bin/sh -c server", "/bin/sh"),
        ("$HOME/server --port {port}", "$HOME/server"),
        ("./server", "./server"),
    ] {
        assert_eq!(program(command), Ok(format!("by the plan's command: {name}")));
    }
    for command in ["no-such-server-here --port {port}", "/nonexistent/server", "no.such_server+here"] {
        let error = program(command).unwrap_err();
        assert_eq!(error.kind, StoreErrorKind::Missing, "{command}");
        let name = command.split(' ').next().unwrap();
        assert!(error.what.starts_with(&format!("the program {name} of the plan's `command` ")), "{error:?}");
        assert_eq!(error.next.as_deref(), Some("install it, or write its path"));
    }
}
