
BlogitsJPnà@rcÕ@ð½-lSA¿ÁA¬AÖð,A3`0Á:AÂÿ@¾=Ø@øIÐ@b£R?†‰OA›öèÀ	a¦Aæ7A¨·<ÁXíJA™›	A