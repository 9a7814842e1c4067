//! Completion in shells: verbs and options from the parser; names of stores, workloads and studies; parameters and
//! operation types of those typed before. The shell asks this program, by `VARIABLE`.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::Path;

use clap::{Arg, Command, CommandFactory};
use clap_complete::env::{CompleteEnv, Elvish, EnvCompleter, Fish, Powershell, Shells, Zsh};
use clap_complete::{ArgValueCompleter, CompletionCandidate, PathCompleter, engine};
use plimsoll_core::{Catalogue, ParamSpec, ParamType};
use plimsoll_plan::keys::{GOALS, KeyType, LINE, OF_DRIVE, PLAN};

use crate::args::Cli;
use crate::studies;

/// The environment variable by which a shell asks for completions; its value is the shell's name.
const VARIABLE: &str = "PLIMSOLL_COMPLETE";
const SHELLS: Shells<'static> = Shells(&[&Bash, &Elvish, &Fish, &Powershell, &Zsh]);

/// Answers a shell that asks; false where none does.
///
/// # Errors
/// As the parser's.
pub fn answer(catalogue: &Catalogue, arguments: &[OsString]) -> clap::error::Result<bool> {
    let typed = arguments.iter().skip_while(|word| *word != "--").skip(1);
    let typed: Vec<String> = typed.flat_map(|word| words(word).map(str::to_owned).collect::<Vec<_>>()).collect();
    let command = || Cli::command().mut_subcommands(|verb| offering(verb, catalogue, &typed));
    let here = std::env::current_dir().ok();
    CompleteEnv::with_factory(command).var(VARIABLE).shells(SHELLS).try_complete(arguments, here.as_deref())
}

/// Returns the script that a shell reads; from then on it asks this program.
pub fn registration(shell: &str) -> io::Result<String> {
    let mut script = Vec::new();
    if let Some(shell) = SHELLS.completer(shell) {
        shell.write_registration(VARIABLE, "plimsoll", "plimsoll", "plimsoll", &mut script)?;
    }
    Ok(String::from_utf8_lossy(&script).into_owned())
}

fn words(line: &OsStr) -> impl Iterator<Item = &str> {
    line.to_str().unwrap_or_default().split_whitespace()
}

/// A value to offer, and its description.
type Offer = (String, &'static str);

/// `verb` with what its options may be given.
fn offering(verb: Command, catalogue: &Catalogue, typed: &[String]) -> Command {
    let name = verb.get_name().to_owned();
    verb.mut_args(|option| {
        let id = option.get_id().as_str();
        let workloads = || {
            let all = catalogue.workloads.iter();
            all.flat_map(|spec| {
                let presets = spec.presets.iter().filter(|preset| preset.name != spec.name);
                std::iter::once((spec.name, spec.summary)).chain(presets.map(|preset| (preset.name, preset.summary)))
            })
        };
        let owned = |(name, help): (&str, &'static str)| (name.to_owned(), help);
        match (name.as_str(), id) {
            ("drive", "workload") => with(option, workloads().map(owned).collect(), false),
            (_, "workload") => with(option, workloads().map(owned).collect(), true),
            (_, "plan") => {
                with(option, studies::ALL.iter().map(|study| owned((study.name, study.title()))).collect(), true)
            }
            ("doctor", "honesty") | ("run" | "check", "stores") | (_, "on") => with(option, stores(catalogue), false),
            (_, "set") => with(option, settings(catalogue, typed), false),
            ("ab", "a" | "b") => with(option, [stores(catalogue), settings(catalogue, typed)].concat(), true),
            ("ab", "other") | (_, "file" | "csv") => with(option, Vec::new(), true),
            ("report" | "compare" | "explain" | "ask", "run" | "a" | "b") | ("run", "resume") => {
                with(option, vec![owned(("latest", "the newest run"))], true)
            }
            (_, "mix") => with(option, kinds(catalogue, typed), false),
            (_, "goal") => with(option, GOALS.iter().map(|key| (format!("{}=", key.name), key.help)).collect(), false),
            (_, id) => {
                let key =
                    [PLAN, LINE].iter().chain(OF_DRIVE).copied().flatten().find(|key| key.name == id && key.is_swept);
                match key.map(|key| key.takes) {
                    Some(KeyType::Word(_, words)) => {
                        with(option, words.iter().map(|word| owned((word, ""))).collect(), false)
                    }
                    _ => option,
                }
            }
        }
    })
}

fn with(option: Arg, offers: Vec<Offer>, or_path: bool) -> Arg {
    option.add(ArgValueCompleter::new(move |current: &OsStr| {
        let mut fitting = fitting(&offers, current.to_str().unwrap_or_default());
        if or_path {
            fitting.extend(engine::ValueCompleter::complete(&PathCompleter::any(), current));
        }
        fitting
    }))
}

/// The offers that `current` may become. It may hold several with commas between them; a value is offered once its name is
/// there.
fn fitting(offers: &[Offer], current: &str) -> Vec<CompletionCandidate> {
    let (before, last) = match current.rfind(',') {
        Some(comma) => current.split_at(comma + 1),
        None => ("", current),
    };
    let is_near = |offer: &str| last.contains('=') || offer.find('=').is_none_or(|equals| equals + 1 == offer.len());
    let fitting = offers.iter().filter(|(offer, _)| offer.starts_with(last) && is_near(offer));
    let candidate = |(offer, help): &Offer| {
        CompletionCandidate::new(format!("{before}{offer}")).help((!help.is_empty()).then(|| (*help).into()))
    };
    fitting.map(candidate).collect()
}

fn stores(catalogue: &Catalogue) -> Vec<Offer> {
    let specs = catalogue.stores.iter().map(|kind| kind.spec());
    specs.flat_map(|spec| spec.names().map(|name| (name.to_owned(), spec.summary))).collect()
}

/// Parameters of the workload that was typed, and of the stores; of all, where none was.
fn settings(catalogue: &Catalogue, typed: &[String]) -> Vec<Offer> {
    let of = |before: &str, params: &[ParamSpec]| -> Vec<Offer> {
        params.iter().flat_map(|param| values(&format!("{before}{}=", param.name), param)).collect()
    };
    let named: Vec<_> = workload(catalogue, typed).into_iter().collect();
    let all = || catalogue.workloads.iter().collect();
    let workloads: Vec<_> = if named.is_empty() { all() } else { named };
    let mut offers: Vec<Offer> = workloads.iter().flat_map(|spec| of("", spec.params)).collect();
    let on = typed.windows(2).filter(|pair| pair[0] == "--on").flat_map(|pair| pair[1].split(','));
    let on: Vec<&str> = on.filter_map(|name| catalogue.store_of(name)).map(|kind| kind.spec().name).collect();
    let specs = catalogue.stores.iter().map(|kind| kind.spec());
    for spec in specs.filter(|spec| on.is_empty() || on.contains(&spec.name)) {
        offers.extend(of(&format!("{}.", spec.name), spec.params));
    }
    offers.sort();
    offers.dedup_by(|one, other| one.0 == other.0);
    offers
}

/// Returns the offers for a parameter, with its values if they are known.
fn values(name: &str, param: &ParamSpec) -> Vec<Offer> {
    let words: &[&str] = match param.param_type {
        ParamType::OneOf(words) => words,
        ParamType::Bool => &["true", "false"],
        _ => &[],
    };
    let values = words.iter().map(|word| (format!("{name}{word}"), ""));
    std::iter::once((name.to_owned(), param.summary)).chain(values).collect()
}

fn kinds(catalogue: &Catalogue, typed: &[String]) -> Vec<Offer> {
    let kinds = workload(catalogue, typed).map_or(&[][..], |spec| spec.kinds);
    kinds.iter().map(|kind| (format!("{kind}="), "")).collect()
}

/// The workload that was typed.
fn workload<'c>(catalogue: &'c Catalogue, typed: &[String]) -> Option<&'c plimsoll_core::WorkloadSpec> {
    typed.iter().find_map(|word| match word.as_str() {
        "-f" | "--file" => catalogue.workloads.iter().find(|spec| spec.takes_scripts()),
        word => catalogue.preset(word).map(|(spec, _)| spec),
    })
}

/// Completion in bash, which splits words at `=` and `:`, too. The script passes the line up to the cursor, and the last
/// word of bash, which the answer replaces.
struct Bash;

impl EnvCompleter for Bash {
    fn name(&self) -> &'static str {
        "bash"
    }

    fn is(&self, name: &str) -> bool {
        name == "bash"
    }

    fn write_registration(
        &self,
        var: &str,
        name: &str,
        bin: &str,
        completer: &str,
        buf: &mut dyn Write,
    ) -> io::Result<()> {
        writeln!(
            buf,
            r#"_{name}() {{
    local IFS=$'\n'
    COMPREPLY=( $({var}=bash {completer} -- "${{COMP_LINE:0:COMP_POINT}}" "$2") )
    if [[ "${{COMPREPLY[0]}}" == *[=/] ]]; then
        compopt -o nospace
    fi
}}
complete -o bashdefault -o default -F _{name} {bin}"#
        )
    }

    fn write_complete(
        &self,
        command: &mut Command,
        arguments: Vec<OsString>,
        current_dir: Option<&Path>,
        buf: &mut dyn Write,
    ) -> io::Result<()> {
        let [line, replaced] = &arguments[..] else { return Ok(()) };
        let mut typed: Vec<OsString> = words(line).map(OsString::from).collect();
        if line.to_str().is_none_or(|line| line.ends_with(char::is_whitespace)) {
            typed.push(OsString::new());
        }
        let at = typed.len().saturating_sub(1);
        let kept = typed.last().map_or(0, |last| last.len().saturating_sub(replaced.len()));
        for candidate in engine::complete(command, typed, at, current_dir)? {
            let value = candidate.get_value().to_string_lossy();
            writeln!(buf, "{}", value.get(kept..).unwrap_or(&value))?;
        }
        Ok(())
    }
}
