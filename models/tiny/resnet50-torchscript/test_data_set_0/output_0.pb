
BlogitsJPynà@ycÕ@`œ½+lSA™¿ÁA¬A×ð,A1`0Á:AÑÿ@º=Ø@JÐ@z£R?~‰OA—öèÀ
a¦Aæ7A£·<Á\íJAš›	A