"""English words for names of things that tools bring, in nine languages, so that words of two languages meet."""

from functools import cache, lru_cache

from ..text import folded, terms_of

__all__ = ["meanings_of"]

_MEANINGS = """
access: zugang zugriff acces acceso accesso acesso toegang dostep permission 权限 アクセス
account: konto compte cuenta conto conta rekening 账户 帐户 アカウント 口座
address: adresse direccion indirizzo endereco adres 地址 住所
agenda: tagesordnung ordre-du-jour orden-del-dia programma programme programa 议程 議題
alert: alarm alerte alerta allarme avviso warnmeldung 警报 アラート
apartment: wohnung appartement piso departamento appartamento apartamento woning mieszkanie flat 公寓 部屋
application: bewerbung candidature candidatura solicitud domanda sollicitatie 申请 応募
appointment: termin rendez-vous cita appuntamento compromisso afspraak wizyta 预约 約束
architect: architekt architecte arquitecto architetto arquiteto
article: artikel articulo articolo artigo artykul 文章 記事
attendee participant: teilnehmer participante partecipant deelnemer uczestnik 参加 参与者
auth login: anmeldung anmelden connexion inicio-de-sesion accesso inloggen logowanie signin password 登录 ログイン
baggage luggage: gepack bagage equipaje bagagli bagagem bagaz 行李 荷物
balance: saldo solde kontostand bilan balans 余额 残高
bank: banque banco banca bankowy 银行 銀行
battery: batterie bateria batteria akku accu 电池 バッテリー
benchmark: vergleichstest banc-essai
bibliography: literaturverzeichnis bibliograph bibliograf 参考文献
bill: rechnung facture factura fattura fatura conta rekening faktura rachunek invoice 账单 請求
board: vorstand conseil-administration junta consiglio conselho bestuur zarzad 董事会 取締役
book: buch livre libro livro boek ksiazka 书籍 書籍
booking reservation: buchung reservierung reserva prenotazione boeking reservering rezerwacja 预订 予約
branch: zweig branche rama ramo 分支 ブランチ
broken failed: kaputt fehlgeschlagen scheitert echoue fallado fallo fallito falhou mislukt crash 失败 失敗
budget: haushalt presupuesto bilancio orcamento begroting budzet 预算 予算
bug: fehler bogue defaut error issue defect 缺陷 バグ
calendar: kalender calendrier calendario agenda kalendarz 日历 カレンダー
candidate applicant: bewerber kandidat candidat candidato kandidaat cv resume 候选 候補
car vehicle: auto fahrzeug voiture vehicule coche vehiculo macchina veicolo carro veiculo voertuig pojazd 汽车 自動車
certificate: zertifikat bescheinigung certificat attestation certificado certificato zaswiadczenie 证书 証明書
chapter: kapitel chapitre capitulo capitolo hoofdstuk rozdzial 章
chart plot: diagramm graphique grafico grafiek wykres graph figure 图表 グラフ
child: kind kinder enfant nino hijo bambino filho crianca dziecko 孩子 子供
class: klasse classe clase klas klasa 类 クラス
clause: klausel absatz clausola clausula paragraf 条款 条項
code: quelltext quellcode codigo codice source 代码 コード
column: spalte colonne columna colonna coluna kolom kolumna 列
comment: kommentar commentaire comentario commento komentarz 评论 コメント
complaint: beschwerde reklamation plainte reclamation queja reclamo denuncia lamentela klacht reklamacja 投诉 苦情
config: konfiguration einstellung configura parametr impostazion konfigurac configuration setting 配置 设置 設定
contract: vertrag contrat contratto umowa agreement lease 合同 契約
contractor: handwerker bauunternehm entrepreneur contratista aannemer wykonawca
cost: kosten cout coste costo custo koszt 成本 コスト
course lesson: kurs vorlesung cours curso corso lekcja les unterricht 课程 授業
court judgment: gericht urteil tribunal jugement sentencia juzgado sentenza sentenca rechtbank vonnis wyrok 法院 判決
crash: absturz plantage fallo arresto killed 崩溃 クラッシュ
customer client: kunde cliente klant klient 客户 顧客
data: daten donnees datos dati dados gegevens dane 数据 データ
database: datenbank base-de-donnees baza-danych postgres sql 数据库 データベース
deadline: frist abgabetermin echeance delai plazo scadenza prazo termijn 截止 締切
delay late: verspatung verzogerung retard retraso ritardo atraso vertraging opoznienie 延误 遅延
delivery: lieferung livraison entrega consegna levering dostawa shipping shipment 交货 配送
dentist: zahnarzt dentiste dentista tandarts dental 牙医 歯医者
deploy release: bereitstellung deploiement despliegue lanzamiento rilascio version 部署 发布 リリース
description: beschreibung descripcion descrizione descricao beschrijving opis 描述 説明
doctor: arzt medecin medico doctora dokter arts lekarz physician 医生 医者
document: dokument documento 文档 文件 書類
documentation: dokumentation documentacion documentazione documentacao docs manual handbuch manuel 文档 ドキュメント
drug medication: medikament arznei medicament medicamento farmaco medicijn lek medicine 药物 薬
electrician: elektriker elektro electricien electricista elettricista eletricista elektricien elektryk
employee: mitarbeiter angestellt employe empleado dipendent funcionario werknemer medewerker pracownik staff 员工 社員
energy electricity: strom electricite electricidad elettric eletric stroom prad power 电费 電気
error: fehler erreur errore erro blad exception 错误 エラー
essay paper: aufsatz essai ensayo saggio ensaio opstel wypracowanie 论文 作文
event: veranstaltung evenement evento gebeurtenis wydarzenie 活动 イベント
expense: spesen ausgabe depense gasto spesa despesa uitgave wydatek cost 费用 経費
factory plant: fabrik werk usine fabrica fabbrica fabriek fabryka 工厂 工場
file: datei fichier archivo arquivo bestand plik 文件 ファイル
finding result: ergebnis resultat resultado risultat resultaat wynik outcome 结果 結果
flight: flug vol vuelo volo voo vlucht lot avion plane 航班 フライト 飛行機
folder: ordner verzeichnis dossier carpeta cartella pasta map directory 文件夹 フォルダ
forecast: prognose prevision prevision previsione previsao voorspelling prognoza 预测 予測
form: formular formulaire formulario modulo formulier formularz 表单 用紙
function: funktion fonction funcion funzione funcao functie funkcja def method 函数 関数
garden: garten jardin giardino jardim tuin ogrod 花园 庭
goods product: produkt produit producto prodotto produto article item 产品 商品 製品
grade: note noten calificacion voto nota cijfer ocena score mark 成绩 成績
guest: gast gaste invite invitad ospit convidad gosc 客人 ゲスト
guide: anleitung leitfaden guia guida handleiding poradnik guideline leitlinie 指南 ガイド
heating: heizung chauffage calefaccion riscaldamento aquecimento verwarming ogrzewanie 暖气 暖房
holiday vacation: urlaub ferien conge vacance vacaciones vacanz ferias vakantie urlop 假期 休暇
hospital: krankenhaus klinik hopital ospedale ziekenhuis szpital clinic 医院 病院
hotel: unterkunft hebergement alojamiento alloggio alojamento verblijf nocleg accommodation room 酒店 ホテル 宿
house building: haus gebaude maison batiment edificio casa gebouw budynek 建筑 建物
image: bild imagen immagine imagem afbeelding obraz picture 图片 画像
index: indice 索引
insurance: versicherung assurance seguro assicurazion verzekering ubezpiecz 保险 保険
interview: vorstellungsgesprach entretien entrevista colloquio sollicitatiegesprek rozmowa 面试 面接
inventory stock: lagerbestand bestand lager inventaire inventario estoque existencias giacenza magazyn 库存 在庫
invoice: rechnung facture factura fattura fatura faktura bill 发票 請求書
issue: problem problema ticket kwestia 问题 課題
job position: stelle stellenanzeige poste emploi puesto lavoro emprego vacature praca annuncio annonce vacancy 职位 求人
key secret: schlussel cle clave chiave chave sleutel klucz token credential 密钥 鍵
lab laboratory: labor laboratoire laboratorio badanie 化验 検査
landlord: vermieter hausverwaltung bailleur proprietaire casero arrendador padrone senhorio verhuurder 房东 大家
latency slow: langsam lent lento traag wolny slower 延迟 遅い
law: gesetz loi ley legge lei wet wetten ustawa regulation statute 法律
lawyer: anwalt avocat abogado avvocato advogado advocaat prawnik counsel attorney 律师 弁護士
lease rent: miete mietvertrag pacht loyer bail alquiler arrendamiento affitto locazione aluguel huur czynsz 租金 家賃
letter: brief lettre carta lettera list 信 手紙
license: lizenz licence licencia licenza licenca licentie 许可 ライセンス
list: liste lista elenco lijst 列表 清单 リスト 一覧
log: protokoll journal registro logs 日志 ログ
machine: maschine maquina macchina maszyna 机器 機械
mail: courriel correo posta e-mail email message wiadomosc 邮件 メール
map: karte carte mapa mappa kaart 地图 地図
measurement: messung mesure medicion misura medicao meting pomiar sensor reading 测量 測定
meeting: sitzung besprechung reunion riunion reuniao vergadering spotkanie 会议 会議
memory: speicher memoire memoria ram oom 内存 メモリ
menu: speisekarte 菜单 メニュー
message: nachricht mensaje messaggio mensagem bericht wiadomosc mail 消息 メッセージ
migration: migracion migrazion migracao migratie migracja 迁移 移行
minutes: protokoll compte-rendu acta verbale ata notulen protokol 纪要 議事録
money owe: geld argent dinero soldi dinheiro pieniadze debt schulden unpaid paye pagado pagato 欠款 借金
month: monat mois mese mes maand miesiac 月份 月
neighbour: nachbar voisin vecino vicino vizinho buren buurman sasiad neighbor 邻居 隣人
network: netzwerk reseau red rete rede netwerk siec 网络 ネットワーク
news: nachrichten nouvelles noticia notizi nieuws wiadomosci press 新闻 ニュース
note: notiz notas appunti anotac notitie notatk 笔记 メモ ノート
number: nummer numero 号码 番号
offer: angebot offre oferta offerta offerte aanbod proposal quotation 报价 見積
office: buro bureau oficina ufficio escritorio kantoor biuro 办公室 事務所
order: bestellung commande pedido ordine encomenda zamowienie purchase 订单 注文
outage incident: ausfall storung panne interruption incidente interruzione storing awaria downtime 故障 障害
owner: eigentumer proprietaire propietario proprietario eigenaar wlasciciel 所有者
package: paket paquet paquete pacchetto pacote pakket paczka parcel dependency 包裹 荷物 依赖
page: seite pagina strona 页面 ページ
password: passwort kennwort mot-de-passe contrasena senha wachtwoord haslo 密码 パスワード
patient: paciente pazient pacjent 患者
payment: zahlung paiement pago pagamento betaling platnosc pay paid zahlen 付款 支払
permit: genehmigung baugenehmigung permis permiso permesso licenca vergunning pozwolenie 许可证 許可
photo: foto photographie fotografia zdjecie picture 照片 写真
plan: planung planning 计划 計画 プラン
policy: richtlinie politique politica beleid polityka polizze poliza polizza polis 政策 方针 規定
port: 端口 ポート
prescription: rezept ordonnance receta ricetta receita recepta 处方 処方
presentation: prasentation presentacion presentazion apresentac presentatie prezentacja slides deck vortrag 演示 発表
price: preis prix precio prezzo preco prijs cena ceny kostet coute cuesta costa kosztuje 价格 値段 価格
process: prozess processus proceso processo proces 进程 プロセス
profit: gewinn benefice beneficio ganancia utile lucro winst zysk income earnings bilanz bilan 利润 利益
project: projekt projet proyecto progetto projeto 项目 プロジェクト
query: abfrage requete consulta interrogazion zapytanie 查询 クエリ
question: frage pregunta domanda pergunta vraag pytanie 问题 質問
quote: angebot devis presupuesto preventivo cotizac orcamento offerte wycena estimate 报价 見積
recipe: rezept recette receta ricetta receita recept przepis 食谱 レシピ
reference: quelle referenc riferiment bron zrodlo 参考 参照
region: bundesland regione regiao regio 地区 地域
repair: reparatur reparation reparacion riparazione reparo reparatie naprawa 维修 修理
report: bericht rapport informe relazion relatorio verslag raport 报告 報告 レポート
request: anfrage demande solicitud richiesta pedido verzoek prosba 请求 リクエスト
requirement: anforderung exigence requisit vereiste wymaganie specification 要求 要件
restaurant: gaststatte ristorante restaurante restauracja 餐厅 レストラン
revenue sales turnover: umsatz vente ventas ingresos vendite ricavi vendas receita omzet verkoop sprzedaz 销售 売上
review: bewertung rezension avis critique resena recension avaliac beoordeling recenzja feedback 评价 评论 レビュー
risk: risiko risque riesgo rischio risco ryzyko 风险 リスク
road route: strecke route trajet ruta percorso rota tras traject 路线 経路
salary: gehalt lohn salaire salario stipendio loon salaris pensja wynagrodzenie wage pay 工资 給料
schedule timetable: zeitplan fahrplan horaire horario orari rozklad schicht turni turno 时间表 スケジュール 時刻表
school: schule ecole escuela scuola escola szkola 学校
search: suche recherche busqueda ricerca pesquisa zoek 搜索 検索
server: serveur servidor serwer host 服务器 サーバ
settings: einstellung parametres ajustes impostazion configurac instelling ustawien config 设置 設定
sheet spreadsheet: tabellenblatt feuille hoja foglio planilha arkusz xlsx csv 表格 シート
shop: laden geschaft boutique tienda negozio loja winkel sklep store 商店 店
size: grosse taille tamano dimension tamanho grootte rozmiar 大小 サイズ
speech: rede discours discurso discorso toespraak talk 演讲 スピーチ
statement: auszug releve extracto estratto extrato abrechnung afschrift wyciag 对账单 明細
storage disk: festplatte speicherplatz disque disco schijf dysk 磁盘 ディスク
student: schuler studierend etudiant estudiante alumno studente aluno leerling uczen pupil 学生
study trial: studie etude estudio ensayo studio estudo onderzoek badanie research 研究 試験
subscription: abonnement abo suscripcion abbonamento assinatura subskrypcja plan 订阅 購読
summary: zusammenfassung resumen riassunto resumo samenvatting podsumowanie 摘要 要約
supplier: lieferant fournisseur proveedor fornitore fornecedor leverancier dostawca vendor 供应商 仕入先
survey: umfrage enquete sondage encuesta sondaggio pesquisa enquete ankieta questionnaire 调查 アンケート
table: tabelle tableau tabla tabella tabela tabel 表格 表
task: aufgabe tache tarea compito tarefa taak zadanie todo 任务 タスク
tax: steuer impot impuesto tassa imposto belasting podatek vat mehrwertsteuer tva iva btw 税
teacher: lehrer lehrkraft professeur enseignant profesor maestro insegnante docente leraar nauczyciel 老师 先生
temperature: temperatur temperatura temperatuur 温度
test: prueba essai teste toets klausur exam prufung examen esame 测试 テスト
ticket: fahrkarte billet etiquette biglietto bilhete kaartje bilet 工单 票 チケット
time: uhrzeit heure hora ora tijd godzina 时间 時間
train: zug treno tren comboio trem trein pociag 火车 列車 電車
transaction: buchung umsatz transaccion transazion transacao transactie transakcja 交易 取引
translation: ubersetzung traduction traduccion traduzion traducao vertaling tlumaczenie 翻译 翻訳
trip: reise voyage viaje viaggio viagem reis podroz travel 旅行 出張
user: benutzer nutzer utilisateur usuario utente utilizador gebruiker uzytkownik 用户 ユーザー
vaccine: impfung vaccin vacuna vaccino vacina szczepien 疫苗 ワクチン
variable: variavel variabile zmienna 变量 変数
video recording: aufnahme aufzeichnung enregistrement grabacion registrazione opname nagranie transcript 录音 録音
vulnerability: sicherheitslucke vulnerab faille kwetsbaarheid podatnosc cve 漏洞 脆弱性
warning: warnung avertissement advertencia avviso aviso waarschuwing ostrzezenie 警告
warranty guarantee: garantie gewahrleistung garantia garanzia gwarancja 保修 保証
water: wasser eau agua acqua woda 水道
weather: wetter meteo clima tiempo weer pogoda rain regen pluie lluvia pioggia chuva deszcz 天气 天気
website: webseite internetseite site-web sitio-web sito-web 网站 ウェブサイト
week: woche semaine semana settimana tydzien 周 週
"""
_ENDINGS = ("", "s", "e", "n", "en", "es", "er", "i")
_LEAST_STEM = 5


@lru_cache(maxsize=1024)
def meanings_of(word: str) -> tuple[str, ...]:
    """Return the English terms of a folded word, also of a synonym; a word without spaces may hold several."""
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
