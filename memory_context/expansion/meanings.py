"""English words for foreign names of things that tools bring: descriptions of what is stored are mostly English."""

from functools import cache, lru_cache

from ..text import folded, terms_of

__all__ = ["meanings_of"]

_MEANINGS = """
account: konto compte cuenta conto conta 账户 帐户 アカウント 口座
address: adresse direccion indirizzo endereco 地址 住所
appointment: termin rendez-vous cita appuntamento compromisso 预约 約束
article: artikel articulo articolo artigo 文章 記事
bank: banque banco banca 银行 銀行
bibliography: literaturverzeichnis bibliograph bibliograf 参考文献
bill: rechnung facture factura fattura fatura conta 账单 請求
branch: zweig branche rama ramo 分支 ブランチ
budget: haushalt presupuesto bilancio orcamento 预算 予算
calendar: kalender calendrier calendario agenda 日历 カレンダー
chapter: kapitel chapitre capitulo capitolo 章
chart: diagramm graphique grafico 图表 グラフ
class: klasse classe clase 类 クラス
code: quelltext quellcode codigo codice 代码 コード
column: spalte colonne columna colonna coluna 列
comment: kommentar commentaire comentario commento 评论 コメント
config: konfiguration einstellung configura parametr impostazion 配置 设置 設定
contract: vertrag contrat 合同 契約
crash: absturz plantage fallo arresto 崩溃 クラッシュ
customer: kunde client cliente 客户 顧客
data: daten donnees datos dati dados 数据 データ
database: datenbank base-de-donnees 数据库 データベース
delivery: lieferung livraison entrega consegna 交货 配送
description: beschreibung descripcion descrizione descricao 描述 説明
document: dokument documento 文档 文件 書類
documentation: dokumentation documentacion documentazione documentacao 文档 ドキュメント
employee: mitarbeiter angestellt employe empleado dipendent funcionario 员工 社員
error: fehler erreur errore erro 错误 エラー
expense: spesen ausgabe depense gasto spesa despesa 费用 経費
file: datei fichier archivo arquivo 文件 ファイル
flight: flug vol vuelo volo voo 航班 フライト 飛行機
folder: ordner verzeichnis dossier carpeta cartella pasta 文件夹 フォルダ
function: funktion fonction funcion funzione funcao 函数 関数
guest: gast gaste invite invitad ospit convidad 客人 ゲスト
guide: anleitung leitfaden guia guida 指南 ガイド
image: bild imagen immagine imagem 图片 画像
index: indice 索引
insurance: versicherung assurance seguro assicurazion 保险 保険
inventory: bestand lager stock inventaire inventario 库存 在庫
invoice: rechnung facture factura fattura fatura 发票 請求書
issue: problem problema ticket 问题 課題
letter: brief lettre carta lettera 信 手紙
license: lizenz licence licencia licenza licenca 许可 ライセンス
list: liste lista elenco 列表 清单 リスト 一覧
log: protokoll journal registro 日志 ログ
mail: courriel correo posta e-mail 邮件 メール
map: karte carte mapa mappa 地图 地図
measurement: messung mesure medicion misura medicao 测量 測定
meeting: sitzung besprechung reunion riunion reuniao 会议 会議
memory: speicher memoire memoria 内存 メモリ
menu: speisekarte 菜单 メニュー
message: nachricht mensaje messaggio mensagem 消息 メッセージ
migration: migracion migrazion migracao 迁移 移行
minutes: protokoll compte-rendu acta verbale ata 纪要 議事録
network: netzwerk reseau red rete rede 网络 ネットワーク
news: nachrichten nouvelles noticia notizi 新闻 ニュース
note: notiz notas appunti anotac 笔记 メモ ノート
number: nummer numero 号码 番号
offer: angebot offre oferta offerta 报价 見積
order: bestellung commande pedido ordine encomenda 订单 注文
page: seite pagina 页面 ページ
password: passwort mot-de-passe contrasena senha 密码 パスワード
payment: zahlung paiement pago pagamento 付款 支払
photo: foto photographie fotografia 照片 写真
plan: planung 计划 計画 プラン
policy: richtlinie politique politica 政策 方针 規定
port: 端口 ポート
presentation: prasentation presentacion presentazion apresentac 演示 発表
price: preis prix precio prezzo preco 价格 値段 価格
process: prozess processus proceso processo 进程 プロセス
product: produkt produit producto prodotto produto 产品 商品 製品
project: projekt projet proyecto progetto projeto 项目 プロジェクト
query: abfrage requete consulta interrogazion 查询 クエリ
question: frage pregunta domanda pergunta 问题 質問
quote: angebot devis presupuesto preventivo cotizac 报价 見積
recipe: rezept recette receta ricetta receita 食谱 レシピ
reference: quelle referenc riferiment 参考 参照
region: bundesland regione regiao 地区 地域
release: version veroffentlichung lanzamiento rilascio 发布 リリース
report: bericht rapport informe relazion relatorio 报告 報告 レポート
request: anfrage demande solicitud richiesta pedido 请求 リクエスト
restaurant: gaststatte ristorante restaurante 餐厅 レストラン
result: ergebnis resultat resultado risultat 结果 結果
review: bewertung rezension avis critique resena recension avaliac 评价 评论 レビュー
salary: gehalt lohn salaire salario stipendio 工资 給料
schedule: zeitplan fahrplan horaire horario orari 时间表 スケジュール 時刻表
school: schule ecole escuela scuola escola 学校
search: suche recherche busqueda ricerca pesquisa 搜索 検索
server: serveur servidor 服务器 サーバ
settings: einstellung parametres ajustes impostazion configurac 设置 設定
sheet: tabellenblatt feuille hoja foglio planilha 表格 シート
shop: laden geschaft boutique tienda negozio loja 商店 店
size: grosse taille tamano dimension tamanho 大小 サイズ
speech: rede discours discurso discorso 演讲 スピーチ
statement: auszug releve extracto estratto extrato 对账单 明細
student: schuler studierend etudiant estudiante alumno studente aluno 学生
summary: zusammenfassung resumen riassunto resumo 摘要 要約
supplier: lieferant fournisseur proveedor fornitore fornecedor 供应商 仕入先
survey: umfrage enquete sondage encuesta sondaggio pesquisa 调查 アンケート
table: tabelle tableau tabla tabella tabela 表格 表
tax: steuer impot impuesto tassa imposto 税
test: prueba essai teste 测试 テスト
ticket: fahrkarte billet etiquette biglietto bilhete 工单 票 チケット
time: uhrzeit heure hora ora 时间 時間
train: zug treno tren comboio trem 火车 列車 電車
transaction: buchung umsatz transaccion transazion transacao 交易 取引
translation: ubersetzung traduction traduccion traduzion traducao 翻译 翻訳
trip: reise voyage viaje viaggio viagem 旅行 出張
user: benutzer nutzer utilisateur usuario utente utilizador 用户 ユーザー
variable: variavel variabile 变量 変数
vulnerability: sicherheitslucke vulnerab faille 漏洞 脆弱性
warning: warnung avertissement advertencia avviso aviso 警告
weather: wetter meteo clima tiempo 天气 天気
week: woche semaine semana settimana 周 週
"""
_ENDINGS = ("", "s", "e", "n", "en", "es", "er", "i")
_LEAST_STEM = 5


@lru_cache(maxsize=1024)
def meanings_of(word: str) -> tuple[str, ...]:
    """Return the English terms of a foreign word, which is folded; a word without spaces may hold several."""
    if word.isascii():
        ways = {word.removesuffix(ending) for ending in _ENDINGS} | {
            word[:end] for end in range(_LEAST_STEM, len(word))
        }
        return tuple(dict.fromkeys(term for way in ways for term in _meanings().get(way, ())))
    return tuple(term for foreign, terms in _meanings().items() if foreign in word for term in terms)


@cache
def _meanings() -> dict[str, list[str]]:
    meanings: dict[str, list[str]] = {}
    for line in _MEANINGS.strip().splitlines():
        english, foreign = line.split(":")
        for one in foreign.split():
            meanings.setdefault(folded(one), []).extend(terms_of(english))
    return meanings
