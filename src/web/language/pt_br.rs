//! The approval page in Brazilian Portuguese.

use chrono::{DateTime, TimeDelta, Utc};

use super::Language;
use crate::domain::language::day_in_portuguese;

/// Brazilian Portuguese.
pub(super) const LANGUAGE: Language = Language {
    tag: "pt-BR",
    page_title: "Sua decisão",
    note: "Pergunta para você",
    draft: "Rascunho",
    no_draft: "Não há rascunho antes desta etapa.",
    draft_is_cut: "O rascunho é mais longo do que esta página mostra. Peça o texto completo antes de decidir sobre o que falta.",
    draft_is_plain: "O rascunho aparece como foi escrito, sem formatação.",
    sources: "Fontes",
    asked_by_job: "Pedido da tarefa",
    you_decide_as: "Você decide como",
    progress: "Andamento",
    step_of: |step, count| format!("Etapa {step} de {count}"),
    deadline: "Prazo",
    time_left,
    moment,
    deadline_stands_still: "Não corre enquanto a tarefa está pausada",
    cost: "Custo até agora",
    usd: |amount| format!("US$ {}", amount.replace('.', ",")),
    at_least: |cost| format!("no mínimo {cost}"),
    votes: "Votos",
    votes_of: |votes, quorum| format!("{votes} de {quorum} aprovações"),
    approved: "Aprovado",
    rejected: "Rejeitado",
    edited: "Aprovado com edições",
    sent_back: "Ajustes pedidos",
    is_done_again: "Será refeito com o que foi pedido e mostrado a você de novo.",
    by: |who| format!("por {who}"),
    by_deadline: "automaticamente, ao fim do prazo",
    comment: "Comentário",
    optional: "opcional",
    approve: "Aprovar",
    reject: "Rejeitar",
    rejecting_ends: "Aprovar libera a tarefa. Rejeitar a encerra.",
    edit: "Editar o rascunho",
    edit_hint: "Ao aprovar, vale o rascunho como você o deixar aqui.",
    send_back: "Pedir ajustes",
    needed_to_send_back: "obrigatório para pedir ajustes",
    paused_title: "A tarefa está pausada",
    paused_open: "Você já pode decidir. Sua decisão fica guardada e passa a valer quando a tarefa continuar.",
    paused_decided: "A tarefa está pausada. A decisão fica guardada e passa a valer quando ela continuar.",
    contradicted: "Sua resposta não foi contada: isto já tinha sido decidido.",
    expired_title: "O prazo acabou",
    expired: "Ninguém decidiu dentro do prazo, então este pedido não pode mais ser respondido.",
    superseded_title: "O rascunho foi editado",
    superseded: "Alguém editou o rascunho e o aprovou. Você receberá outra mensagem para decidir sobre a versão editada.",
    withdrawn_title: "Não é mais preciso decidir",
    withdrawn: "A tarefa terminou, ou fez um novo pedido, antes que este fosse decidido.",
    voted_title: "Sua aprovação foi contada",
    waiting: |missing| match missing {
        1 => "Agradecemos. Falta mais uma aprovação.".to_owned(),
        missing => format!("Agradecemos. Faltam mais {missing} aprovações."),
    },
    safe_to_close: "Você já pode fechar esta página.",
    unknown_title: "Este link não funciona",
    unknown: "Ele pode estar incompleto. Abra-o de novo pela mensagem que você recebeu.",
    foreign_title: "Esta resposta não foi contada",
    foreign: "Ela veio de outro site. Abra o link da sua mensagem e decida por lá.",
    malformed_title: "Não foi possível ler esta resposta",
    malformed: "Nada foi decidido. Abra de novo o link da sua mensagem.",
    too_long: "Nada foi decidido: o comentário é longo demais. Volte e encurte-o.",
    busy_title: "Um momento, por favor",
    busy: "O servidor está ocupado. Você pode reenviar sua decisão sem risco: recarregue esta página em alguns segundos.",
    broken_title: "Algo deu errado",
    broken: "A falha é do nosso lado. Abra o link de novo para ver se sua decisão foi contada.",
};

/// The verb follows the number that comes first.
fn time_left(left: TimeDelta) -> String {
    let (days, hours, minutes) = (left.num_days(), left.num_hours() % 24, left.num_minutes() % 60);
    match (days, hours, minutes) {
        (1, 0, _) => "falta 1 dia".to_owned(),
        (1, ..) => format!("falta 1 dia e {hours} h"),
        (2.., 0, _) => format!("faltam {days} dias"),
        (2.., ..) => format!("faltam {days} dias e {hours} h"),
        (_, 1, 0) => "falta 1 h".to_owned(),
        (_, 1, _) => format!("falta 1 h {minutes} min"),
        (_, 2.., 0) => format!("faltam {hours} h"),
        (_, 2.., _) => format!("faltam {hours} h {minutes} min"),
        (_, _, 1) => "falta 1 min".to_owned(),
        (_, _, 2..) => format!("faltam {minutes} min"),
        (..) => "falta menos de um minuto".to_owned(),
    }
}

fn moment(at: DateTime<Utc>) -> String {
    format!("{}, {}", day_in_portuguese(&at), at.format("%H:%M (UTC%:z)"))
}
